"""Every public module and function is compared with PyTorch or with its definition, or has a reason not to be.

A module counts if a table of the peer tests draws it (`LAYERS`: float32 on both backends and float64), or if the peer
file of its subject names it. A function counts if it is drawn itself, or if the module that is drawn calls it.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.peers import peer_functions, peer_plain, test_peer_lazy  # noqa: E402, F401 - they register what they draw
from tests.peers.peer_layers import LAYERS  # noqa: E402

from grilly_core import functional, nn  # noqa: E402

HERE = Path(__file__).parent
CORE = HERE.parent / "core"

#: Modules with a peer file of their own, where options and inputs are drawn as the subject asks.
ELSEWHERE = {
    "test_peer_recurrent.py": "RNN LSTM GRU RNNCell LSTMCell GRUCell",
    "test_peer_multihead.py": "MultiheadAttention",
    "test_peer_transformer.py": "Transformer TransformerEncoder TransformerDecoder TransformerEncoderLayer "
    "TransformerDecoderLayer",
    "test_peer_attention_variants.py": "GroupedQueryAttention FlashAttention2 ProsodyModulatedAttention FNetMixing "
    "RotaryEmbedding PositionalEncoding",
    "test_peer_decoding.py": "GreedyDecoder SampleDecoder BeamSearchDecoder",
    "test_peer_losses.py": "MarginRankingLoss HingeEmbeddingLoss SoftMarginLoss MultiLabelSoftMarginLoss "
    "MultiMarginLoss MultiLabelMarginLoss TripletMarginWithDistanceLoss PoissonNLLLoss GaussianNLLLoss CTCLoss",
    "test_peer_contrastive.py": "InfoNCELoss NTXentLoss SupervisedContrastiveLoss ContrastiveLoss "
    "PairContrastiveLoss LinearCrossEntropyLoss AdaptiveLogSoftmaxWithLoss NLLLoss2d",
}
#: Modules that have nothing to compare.
MODULES_WITHOUT = {
    "AffectMLP": "dense layers; the core's tests check its formula",
    "Module": "the base class",
    "RoPE": "another name of RotaryEmbedding",
    "RoSwish": "not PyTorch's; the core's tests check its formula",
}
#: Functions that PyTorch lacks, with the file whose tests have their definition.
DEFINED = {
    "test_embedding_functions.py": "embedding_attention embedding_ffn embedding_lookup embedding_normalize "
    "embedding_pool embedding_position prefix_scan_causal",
    "test_learning_rules.py": "ewc_gradient ewc_penalty fisher_info fisher_normalize natural_gradient nlms_ensemble "
    "nlms_metrics nlms_predict nlms_update whitening_apply whitening_batch_stats whitening_transform",
}
FUNCTIONS_WITHOUT = {
    "roswish": "not PyTorch's; the core's tests check its formula",
    "linear_act": "a dense layer and an activation in one kernel, which the conformance suite compares with its body",
    "matmul_int8": "weights of a format of ours; the conformance suite compares it with its body",
}


def base(name):
    return name.removeprefix("ours-").split("-")[0]


DRAWN = {base(name) for name in (*LAYERS, *test_peer_lazy.LAYERS)}


def all_modules():
    found = ((name, getattr(nn, name)) for name in nn.__all__)
    return {name for name, c in found if isinstance(c, type) and issubclass(c, nn.Module)}


def listed(table):
    return {name for names in table.values() for name in names.split()}


def test_every_module_is_compared():
    lacking = all_modules() - DRAWN - listed(ELSEWHERE) - set(MODULES_WITHOUT)
    assert not lacking, f"in no peer table: {sorted(lacking)}"
    stale = (listed(ELSEWHERE) | set(MODULES_WITHOUT)) - all_modules()
    assert not stale, f"no longer modules: {sorted(stale)}"
    assert not DRAWN & set(MODULES_WITHOUT), "excepted, but drawn"


@pytest.mark.parametrize("file", ELSEWHERE)
def test_the_file_of_a_subject_names_its_modules(file):
    text = (HERE / file).read_text()
    # the table of losses gives their names without the last word
    absent = [
        n for n in ELSEWHERE[file].split() if not re.search(rf"\b({n}|{n.removesuffix('Loss')})\b", text)
    ]
    assert not absent


def called(function):
    """Whether a module that is compared calls the function in its own file."""
    pattern = re.compile(rf"(?<![\w.\"'])(?:\w+\.)?{function}\(")
    for name in (DRAWN | listed(ELSEWHERE)) & all_modules():
        if pattern.search(inspect.getsource(getattr(nn, name))):
            return True
    return False


def test_every_function_is_compared():
    drawn = {name.removeprefix("f.") for name in DRAWN}
    rest = set(functional.__all__) - drawn - listed(DEFINED) - set(FUNCTIONS_WITHOUT)
    lacking = {name for name in rest if not called(name)}
    assert not lacking, f"neither drawn nor called by a module that is: {sorted(lacking)}"
    stale = (listed(DEFINED) | set(FUNCTIONS_WITHOUT)) - set(functional.__all__)
    assert not stale, f"no longer functions: {sorted(stale)}"
    assert not drawn & set(FUNCTIONS_WITHOUT), "excepted, but drawn"


@pytest.mark.parametrize("file", DEFINED)
def test_the_definitions_are_where_they_are_said_to_be(file):
    text = (CORE / file).read_text()
    assert not [name for name in DEFINED[file].split() if not re.search(rf"\b{name}\(", text)]


def test_the_reasons_of_the_exceptions_hold():
    everything = "\n".join(path.read_text() for path in CORE.glob("test_*.py"))
    assert re.search(r"\bRoSwish\(", everything)
    assert nn.RoPE is nn.RotaryEmbedding
