"""Which function of grilly answers which name of ``torch.nn.functional``."""

ENTRIES = {}
