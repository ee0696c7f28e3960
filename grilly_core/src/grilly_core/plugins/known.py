"""What lives in which package, so that a missing name says what to install. Plain data, no imports.

A public name is written as its users write it below ``grilly``: ``nn.LIFNeuron``, ``functional.faiss_topk``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BACKENDS",
    "DEMOS",
    "OPS",
    "PLANNED",
    "PUBLIC",
    "install_hint",
    "missing",
    "names_in",
    "package_of",
]

#: The index name ``grilly`` is somebody else's, so every message sends the reader to a checkout.
_INSTALL: Final = "from a checkout of grilly run `pip install ./grilly_core ./{folder}`"

#: Packages that nobody can install yet: their names are reserved.
PLANNED: Final = frozenset(["grilly-ext-cognition", "grilly-ext-multimodal", "grilly-ext-hub"])

#: Backend name → package.
BACKENDS: Final[dict[str, str]] = {
    "cpu": "grilly-backend-cpu",
    "vulkan": "grilly-backend-vulkan",
}

#: First part of an op's name → package.
OPS: Final[dict[str, str]] = {
    "snn": "grilly-ext-snn",
    "faiss": "grilly-ext-memory",
    "memory": "grilly-ext-memory",
    "vsa": "grilly-ext-cognition",
    "capsule": "grilly-ext-multimodal",
}

#: Name of a demo → package.
DEMOS: Final[dict[str, str]] = {
    "digits": "grilly",
    "snn": "grilly-ext-snn",
    "search": "grilly-ext-memory",
}

_BY_PACKAGE: Final[dict[str, dict[str, str]]] = {
    "grilly-ext-snn": {
        "nn": """
            ATan AdExNode AdaptiveLIFNode AlphaNode BaseNode BatchNormThroughTime1d BatchNormThroughTime2d
            ChannelQKAttention ConvertedNetwork Converter DualTimescaleSynapse ElementWiseRecurrentContainer FastSigmoid
            GIFNeuron GridCell HebbianLayer IFNode IzhikevichNode LIFNeuron LIFNode LapicqueNode LeakyNode MemoryModule
            Monitor MultiDimensionalAttention MultiStepContainer NeuNorm OjaRule ParametricLIFNode PlaceCell QKAttention
            RecurrentSpikingLayer SNNCompute SNNLayer SNNMatMul SNNRMSNorm SNNReadout SNNSoftmax SNNVisualizer STDPLayer
            STPSynapse SangerRule SeqToANNContainer SigmoidSurrogate SpikingConvBlock SpikingSelfAttention
            StraightThrough Surrogate Synapse SynapseFilter SynapticNode TemporalEffectiveBatchNorm1d
            TemporalEffectiveBatchNorm2d TemporalWiseAttention ThetaGammaEncoder ThresholdDependentBatchNorm1d
            ThresholdDependentBatchNorm2d TimeCell TokenQKAttention Triangular
        """,
        "functional": """
            accuracy_rate bridge_temporal_weights ce_count_loss ce_max_membrane_loss ce_rate_loss continuous_to_spikes
            delta_encode detach_net firing_rate_statistics from_nir grid_cell hebbian_learning hybrid_blend if_step
            l1_rate_sparsity latency_encode lif_step mse_count_loss mse_membrane_loss multi_step_forward oja_learning
            phase_encode place_cell plot_firing_rate plot_membrane_potential plot_receptive_fields plot_spike_raster
            plot_stdp_window population_encode rate_encode rate_range_loss register_surrogate reset_net sanger_learning
            seq_to_ann_forward set_step_mode spike_times spikes_to_continuous stdp_learning stdp_window
            thermometer_encode theta_gamma_encoding time_cell to_nir
        """,
    },
    "grilly-ext-memory": {
        "nn": """
            ExpertRouter KNNClassifier MemoryBank MemoryContextAggregate MemoryInjectConcat MemoryInjectGate
            MemoryInjectResidual MemoryQueryPooling MemoryRead MemoryWrite
        """,
        "functional": """
            faiss_distance faiss_ivf_filter faiss_kmeans faiss_kmeans_update faiss_quantize faiss_topk hamming_topk
            load_balance_loss memory_context_aggregate memory_inject_concat memory_inject_gate memory_inject_residual
            memory_query_pooling memory_read memory_write router_z_loss
        """,
        "retrieval": """
            DocumentStore HashingEncoder IndexBinaryFlat IndexFlat IndexHNSW IndexIVFFlat IndexIVFPQ
            IndexIVFScalarQuantizer IndexPQ IndexScalarQuantizer SemanticSearch ShardError ShardedIndex StoredIndex
            index_factory kmeans load_index passages plot_sweep read_faiss recall_at_k save_index sweep_nprobe
            write_faiss
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


def missing(what: str, package: str) -> str:
    """Return the sentence that says why `what` is not there: its package is not installed, or not written.

    Examples
    --------
    >>> missing("grilly.nn.PerceiverIO", "grilly-ext-multimodal")
    'grilly.nn.PerceiverIO is planned for the package grilly-ext-multimodal, which does not exist yet.'
    """
    if package in PLANNED:
        return f"{what} is planned for the package {package}, which does not exist yet."
    return f"{what} comes with the package {package}, which is not installed: {install_hint(package)}."
