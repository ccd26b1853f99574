"""Lie groups, decompositions, pruning, solvers, invertible networks, tables, agents, molecules."""

from __future__ import annotations

from typing import Any

from .program import Inputs, Program, Row

NEEDS = (
    "autoray==0.11.0", "cloudpickle==3.1.3", "einops==0.8.2", "farama-notifications==0.0.6",
    "gymnasium==1.4.0", "loguru==0.7.3", "tqdm==4.70.1", "typing-extensions==4.16.0",
)  # fmt: skip


def groups(draw: Inputs) -> Program:
    """LieTensor is a subclass of Tensor with a `__torch_function__`."""
    import pypose as pp

    def call(turns: Any, moves: Any, points: Any) -> Any:
        turn, move = pp.so3(turns).Exp(), pp.se3(moves).Exp()
        both = move * move[:1]
        return (
            turn @ points, turn.Log().tensor(), (move @ move.Inv()).tensor(), move.matrix(),
            pp.euler(turn), both.Log().tensor(), move.Act(points), move.Adj(pp.se3(moves)).tensor(),
        )  # fmt: skip

    return Program(None, (draw.normal(4, 3), draw.normal(4, 6), draw.normal(4, 3)), call=call)


def decompositions(draw: Inputs) -> Program:
    import tensorly as tl
    from tensorly.decomposition import parafac, tensor_train, tucker

    def call(x: Any) -> Any:
        tl.set_backend("pytorch")
        core = tucker(x, [2, 2, 2], n_iter_max=10)
        rows = parafac(x, 3, init="svd", n_iter_max=10)
        chain = tensor_train(x, [1, 2, 2, 1])
        return (
            tl.tucker_to_tensor(core), tl.cp_to_tensor(rows), tl.tt_to_tensor(chain),
            tl.unfold(x, 1), tl.norm(x),
        )  # fmt: skip

    return Program(None, (draw.normal(4, 5, 6),), call=call, grad=False)


def pruned(draw: Inputs) -> Program:
    """Layers are found by the names of the graph's nodes."""
    import torch_pruning
    from torch import nn

    made = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 6, 3),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4),
    )  # fmt: skip
    x = draw.normal(2, 3, 12, 12)
    torch_pruning.pruner.MagnitudePruner(
        made, x, importance=torch_pruning.importance.MagnitudeImportance(p=2), pruning_ratio=0.5,
        ignored_layers=[made[-1]],
    ).step()  # fmt: skip
    assert made[0].weight.shape == (4, 3, 3, 3) and made[-1].weight.shape == (4, 3)
    return Program(made, (x,))


def minima(draw: Inputs) -> Program:
    from torchmin import minimize

    methods = ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact")

    def valley(x: Any) -> Any:
        return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()

    def call(x: Any) -> Any:
        return [minimize(valley, x, method=method, max_iter=6).x for method in methods]

    return Program(None, (draw.uniform(5) + 0.5,), call=call, grad=False)


def filterbanks(draw: Inputs) -> Program:
    from asteroid_filterbanks import make_enc_dec
    from asteroid_filterbanks.transforms import mag
    from torch import nn

    made = nn.ModuleList(make_enc_dec("stft", n_filters=32, kernel_size=16, stride=8))
    made.extend(make_enc_dec("free", n_filters=16, kernel_size=8))

    def call(x: Any) -> Any:
        first, second = made[0](x), made[2](x)
        return first, made[1](first), mag(first), made[3](second)

    return Program(made, (draw.normal(1, 1, 200),), call=call)


def embedded_numbers(draw: Inputs) -> Program:
    import rtdl_num_embeddings as rtdl
    from torch import nn

    x = draw.normal(32, 5)
    bins = rtdl.compute_bins(x, n_bins=4)
    made = nn.ModuleList([
        rtdl.PeriodicEmbeddings(5, d_embedding=6, lite=False),
        rtdl.PiecewiseLinearEmbeddings(bins, 6, activation=True, version="B"),
        rtdl.LinearReLUEmbeddings(5, 4),
    ])  # fmt: skip
    return Program(made, (x,), call=lambda x: [part(x) for part in made])


def of_tables(draw: Inputs) -> Program:
    import torch
    from rtdl_revisiting_models import FTTransformer

    made = FTTransformer(
        n_cont_features=3, cat_cardinalities=[4, 5], d_out=2, n_blocks=2, d_block=16,
        attention_n_heads=4, attention_dropout=0.0, ffn_d_hidden=None,
        ffn_d_hidden_multiplier=1.33, ffn_dropout=0.0, residual_dropout=0.0,
    )  # fmt: skip
    return Program(
        made, (draw.normal(6, 3), draw.ints(4, 6, 2)),
        optimizer=lambda params: torch.optim.SGD(made.make_parameter_groups(), lr=1e-2),
    )  # fmt: skip


def of_sequences(draw: Inputs) -> Program:
    from pytorch_tcn import TCN

    made = TCN(4, [8, 8, 6], kernel_size=3, dropout=0.0, use_norm="weight_norm",
               use_skip_connections=True)  # fmt: skip
    return Program(made, (draw.normal(2, 4, 20),))


def invertible(draw: Inputs) -> Program:
    import numpy as np
    from FrEIA import framework, modules
    from torch import nn

    def subnet(given: int, wanted: int) -> Any:
        return nn.Sequential(nn.Linear(given, 16), nn.ReLU(), nn.Linear(16, wanted))

    np.random.seed(0)  # draws the permutations
    made = framework.SequenceINN(6)
    for kind in (modules.AllInOneBlock, modules.GLOWCouplingBlock, modules.RNVPCouplingBlock):
        made.append(kind, subnet_constructor=subnet)

    def call(x: Any) -> Any:
        found, volume = made(x)
        return found, volume, made(found, rev=True)[0]

    return Program(made, (draw.normal(5, 6),), call=call)


def several_losses(draw: Inputs) -> Program:
    from torch import nn
    from torchjd import aggregation
    from torchjd.autojac import backward, jac_to_grad

    made = nn.Linear(4, 2)
    kinds = (aggregation.MGDA(), aggregation.Mean(), aggregation.AlignedMTL(), aggregation.IMTLG(),
             aggregation.Krum(0, 1))  # fmt: skip

    def call(x: Any, jacobian: Any) -> Any:
        y = made(x)
        backward([y[:, 0].pow(2).mean(), (y[:, 1] - 1).pow(2).mean()], inputs=made.parameters())
        jac_to_grad(made.parameters(), aggregation.MGDA())
        found = [p.grad.clone() for p in made.parameters()]
        made.zero_grad()
        return [*found, *[kind(jacobian.detach()) for kind in kinds], made(x)]

    return Program(made, (draw.normal(5, 4), draw.normal(3, 6)), call=call)


def frequencies_off_the_grid(draw: Inputs) -> Program:
    import torch
    import torchkbnufft

    there = torchkbnufft.KbNufft(im_size=(16, 16))
    back = torchkbnufft.KbNufftAdjoint(im_size=(16, 16))
    places = (draw.uniform(2, 40) - 0.5) * 6.28

    def call(real: Any, imaginary: Any) -> Any:
        found = there(torch.complex(real, imaginary), places)
        return found.real, found.imag, back(found, places).abs()

    return Program(None, (draw.normal(1, 1, 16, 16), draw.normal(1, 1, 16, 16)), call=call)


def integrals(draw: Inputs) -> Program:
    import torch
    import torchquad

    kinds = (torchquad.Simpson, torchquad.Trapezoid, torchquad.Boole, torchquad.GaussLegendre)

    def call(scale: Any) -> Any:
        def of(x: Any) -> Any:
            return torch.sin(scale * x[:, 0]) + torch.exp(x[:, 1])

        domain = [[0.0, 1.0], [-1.0, 1.0]]
        return [
            kind().integrate(of, dim=2, N=121, integration_domain=domain, backend="torch")
            for kind in kinds
        ]  # fmt: skip

    return Program(None, (draw.uniform(1),), call=call)


def agent(draw: Inputs) -> Program:
    from gymnasium import spaces
    from stable_baselines3.common.policies import ActorCriticPolicy

    observed = spaces.Box(-1, 1, (4,))
    made = ActorCriticPolicy(observed, spaces.Discrete(3), lambda progress: 1e-3)
    return Program(made, (draw.normal(6, 4), draw.ints(3, 6)), call=made.evaluate_actions)


def matrix_memory(draw: Inputs) -> Program:
    import xlstm

    layer = xlstm.mLSTMLayerConfig(conv1d_kernel_size=4, qkv_proj_blocksize=4, num_heads=2)
    made = xlstm.xLSTMBlockStack(
        xlstm.xLSTMBlockStackConfig(
            mlstm_block=xlstm.mLSTMBlockConfig(mlstm=layer), context_length=16, num_blocks=2,
            embedding_dim=16,
        )
    )  # fmt: skip
    return Program(made, (draw.normal(2, 16, 16),))


def molecules(draw: Inputs) -> Program:
    import torch
    from torchani.aev import AEVComputer

    made = AEVComputer.like_1x(num_species=4)
    kinds = torch.tensor([[0, 1, 0, 2, 3]])
    return Program(None, (draw.normal(1, 5, 3) * 1.5,), call=lambda places: made(kinds, places))


def clicks(draw: Inputs) -> Program:
    import torch
    from deepctr_torch.inputs import DenseFeat, SparseFeat
    from deepctr_torch.models import DeepFM

    columns = [SparseFeat("user", 5, 4), SparseFeat("item", 6, 4), DenseFeat("price", 1)]
    made = DeepFM(columns, columns, dnn_hidden_units=(8,), device="cpu")
    kinds, price = draw.ints(5, 6, 2), draw.uniform(6, 1)
    return Program(made, (price,), call=lambda x: made(torch.cat([kinds.to(x.dtype), x], 1)))


ROWS = (
    Row("pypose Lie groups", "pypose==0.9.5", groups),
    Row("tensorly decompositions", "tensorly==0.10.0", decompositions, "float64"),
    Row("torch_pruning", "torch-pruning==1.6.1", pruned, "float64"),
    Row("torchmin minimize", "pytorch-minimize==0.1.0", minima, "float64"),
    Row("asteroid filterbanks", "asteroid-filterbanks==0.4.0", filterbanks),
    Row("rtdl embeddings of numbers", "rtdl-num-embeddings==0.0.12", embedded_numbers),
    Row("rtdl FTTransformer", "rtdl-revisiting-models==0.0.2", of_tables),
    Row("pytorch_tcn TCN", "pytorch-tcn==1.2.3", of_sequences),
    Row("FrEIA SequenceINN", "FrEIA==0.2", invertible),
    Row("torchjd aggregation", "torchjd==0.18.0", several_losses, "float64"),
    Row("torchkbnufft", "torchkbnufft==1.5.2", frequencies_off_the_grid),
    Row("torchquad integrals", "torchquad==0.6.0", integrals),
    Row("stable_baselines3 policy", "stable-baselines3==2.9.2", agent),
    Row("xlstm block stack", "xlstm==2.0.6", matrix_memory),
    Row("torchani features", "torchani==2.9.0", molecules),
    Row("deepctr DeepFM", "deepctr-torch==0.3.0", clicks),
)
