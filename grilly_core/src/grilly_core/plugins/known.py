"""What lives in which package, so that a missing name says what to install. Plain data, no imports.

A public name is written as its users write it below ``grilly``: ``nn.LIFNeuron``, ``functional.faiss_topk``.
"""

from __future__ import annotations

from typing import Final

__all__ = ["BACKENDS", "OPS", "PUBLIC", "install_hint", "names_in", "package_of"]

#: The index name ``grilly`` is somebody else's, so every message sends the reader to a checkout.
_INSTALL: Final = "from a checkout of grilly run `pip install ./grilly_core ./{folder}`"

#: Backend name → package.
BACKENDS: Final[dict[str, str]] = {
    "cpu": "grilly-backend-cpu",
    "vulkan": "grilly-backend-vulkan",
}

#: First part of an op's name → package.
OPS: Final[dict[str, str]] = {
    "snn": "grilly-ext-snn",
    "memory": "grilly-ext-memory",
    "faiss": "grilly-ext-memory",
    "vsa": "grilly-ext-cognition",
    "capsule": "grilly-ext-multimodal",
}

_BY_PACKAGE: Final[dict[str, dict[str, str]]] = {
    "grilly-ext-snn": {
        "": "SNNCompute",
        "nn": """
            LIFNeuron SNNLayer HebbianLayer STDPLayer OjaRule SangerRule GIFNeuron SNNMatMul SNNSoftmax SNNRMSNorm
            SNNReadout Synapse MemoryModule BaseNode IFNode LIFNode ParametricLIFNode ATan FastSigmoid
            MultiStepContainer SeqToANNContainer ElementWiseRecurrentContainer SynapseFilter DualTimescaleSynapse
            NeuNorm ThresholdDependentBatchNorm1d ThresholdDependentBatchNorm2d TemporalEffectiveBatchNorm1d
            TemporalEffectiveBatchNorm2d BatchNormThroughTime1d BatchNormThroughTime2d TemporalWiseAttention
            MultiDimensionalAttention SpikingSelfAttention QKAttention Converter Monitor PlaceCell GridCell TimeCell
            ThetaGammaEncoder AdExNode AdaptiveLIFNode AlphaNode IzhikevichNode LapicqueNode LeakyNode SynapticNode
            StraightThrough Surrogate Triangular
        """,
        "functional": """
            multi_step_forward seq_to_ann_forward reset_net set_step_mode detach_net register_surrogate place_cell
            grid_cell time_cell theta_gamma_encoding continuous_to_spikes spikes_to_continuous bridge_temporal_weights
            hybrid_blend rate_encode latency_encode phase_encode thermometer_encode delta_encode population_encode
            spike_times ce_rate_loss ce_count_loss ce_max_membrane_loss mse_count_loss mse_membrane_loss
            l1_rate_sparsity rate_range_loss accuracy_rate hebbian_learning oja_learning sanger_learning stdp_learning
            stdp_window
        """,
    },
    "grilly-ext-memory": {
        "nn": """
            MemoryBank MemoryRead MemoryWrite MemoryContextAggregate MemoryInjectConcat MemoryInjectGate
            MemoryInjectResidual MemoryQueryPooling
        """,
        "functional": """
            faiss_distance faiss_topk faiss_ivf_filter faiss_kmeans_update faiss_quantize memory_read memory_write
            memory_context_aggregate memory_query_pooling memory_inject_concat memory_inject_gate
            memory_inject_residual
        """,
    },
    "grilly-ext-cognition": {
        "experimental": "vsa language cognitive temporal moe",
        "utils": "stable_hash ingest_checkpoint",
    },
    "grilly-ext-multimodal": {
        "nn": """
            BottleneckFusion PerceiverIO PerceiverResampler CrossModalAttentionFusion ImageBindFusion FlamingoFusion
            VLMLayer VisionLanguageModel CapsuleProject SemanticEncoder DentateGyrus CapsuleEmbedding
            HippocampalTransformerLayer
        """,
    },
    "grilly-ext-hub": {
        "": "torch_api HuggingFaceBridge",
    },
}

#: Public name → package.
PUBLIC: Final[dict[str, str]] = {
    f"{namespace}.{name}" if namespace else name: package
    for package, namespaces in _BY_PACKAGE.items()
    for namespace, names in namespaces.items()
    for name in names.split()
}


def package_of(namespace: str, name: str) -> str | None:
    """Return the package that provides a public name, or None if no package of ours is known to.

    Parameters
    ----------
    namespace : str
        Where the name is looked up below ``grilly``, such as ``"nn"``; empty for ``grilly`` itself.
    name : str

    Examples
    --------
    >>> package_of("nn", "LIFNeuron")
    'grilly-ext-snn'
    """
    return PUBLIC.get(f"{namespace}.{name}" if namespace else name)


def names_in(namespace: str) -> list[str]:
    """Return the names that packages of ours are known to add to a namespace."""
    prefix = f"{namespace}." if namespace else ""
    found = (key.removeprefix(prefix) for key in PUBLIC if key.startswith(prefix))
    return sorted(name for name in found if "." not in name)


def install_hint(package: str) -> str:
    """Return how to install a package of ours, as part of a sentence.

    Examples
    --------
    >>> install_hint("grilly-ext-snn")
    'from a checkout of grilly run `pip install ./grilly_core ./grilly_ext_snn`'
    """
    return _INSTALL.format(folder=package.replace("-", "_"))
