"""Which function of grilly answers which name of ``torch.linalg`` and ``torch.fft``."""

ENTRIES = {}
