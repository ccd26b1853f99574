"""Equivariant networks, containers of tensors, solvers, curvature and optimizers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .program import Inputs, Program, Row

NEEDS = (
    "asdfghjkl==0.1a5", "beartype==0.23.1", "curvlinops-for-pytorch==3.0.1", "einconv==0.1.0",
    "einops==0.8.2", "einx==0.4.3", "frozendict==2.5.1", "hyper-connections==0.4.11",
    "jaxtyping==0.3.11", "lightning-utilities==0.15.3", "loguru==0.7.3", "opt-einsum-fx==0.1.4",
    "orjson==3.13.0", "pyvers==0.2.3", "rotary-embedding-torch==0.9.1", "tabulate==0.10.0",
    "taylor-series-linear-attention==0.2.0", "torchdiffeq==0.2.5", "torchmetrics==1.9.0",
    "torchsde==0.2.6", "torchtyping==0.1.5", "tqdm==4.70.1", "trampoline==0.1.2",
    "typeguard==4.6.1", "unfoldnd==0.2.3", "wadler-lindig==0.1.8", "typing-extensions==4.16.0",
)  # fmt: skip


def network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


# --- symmetry -------------------------------------------------------------------------------------


def harmonics(draw: Inputs) -> Program:
    from e3nn import o3

    def call(x: Any) -> Any:
        return o3.spherical_harmonics([0, 1, 2, 3], x, normalize=True, normalization="component")

    return Program(None, (draw.normal(7, 3),), call=call)


def rotations_of_wigner(draw: Inputs) -> Program:
    from e3nn import o3

    def call(a: Any, b: Any, c: Any) -> Any:
        return o3.wigner_D(2, a, b, c), o3.wigner_3j(1, 2, 3), o3.angles_to_matrix(a, b, c)

    return Program(None, (draw.normal(5), draw.normal(5), draw.normal(5)), call=call)


def rotations(draw: Inputs) -> Program:
    import roma

    def call(matrices: Any, vectors: Any) -> Any:
        nearest, turned = roma.special_procrustes(matrices), roma.rotvec_to_rotmat(vectors)
        return (
            nearest, turned, roma.rotmat_to_unitquat(turned), roma.rotmat_to_euler("xyz", turned),
            roma.rotmat_geodesic_distance(nearest, turned),
            roma.rigid_points_registration(matrices[0], matrices[1]),
        )  # fmt: skip

    return Program(None, (draw.normal(5, 3, 3), draw.normal(5, 3)), call=call)


def points(draw: Inputs) -> Program:
    import torch
    from invariant_point_attention import InvariantPointAttention

    made = InvariantPointAttention(
        dim=16, heads=2, scalar_key_dim=4, scalar_value_dim=4, point_key_dim=2, point_value_dim=2,
        pairwise_repr_dim=8,
    )  # fmt: skip
    keywords = {
        "pairwise_repr": draw.normal(2, 6, 6, 8), "translations": draw.normal(2, 6, 3),
        "rotations": torch.eye(3).expand(2, 6, 3, 3),
    }  # fmt: skip
    return Program(made, (draw.normal(2, 6, 16),), keywords)


def equiformer(draw: Inputs) -> Program:
    import torch
    from equiformer_pytorch import Equiformer

    made = Equiformer(
        num_tokens=8, dim=(8, 4), dim_head=(4, 4), heads=(2, 2), num_degrees=2, depth=1,
        num_neighbors=3, l2_dist_attention=False, reversible=False,
    )  # fmt: skip
    mask = torch.ones(1, 6, dtype=torch.bool)

    def call(kinds: Any, places: Any) -> Any:
        found = made(kinds, places, mask)
        return found.type0, found.type1

    return Program(made, (draw.ints(8, 1, 6), draw.normal(1, 6, 3)), call=call)


# --- classes that replace tensors -----------------------------------------------------------------


def containers(draw: Inputs) -> Program:
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    made = TensorDictSequential(
        TensorDictModule(torch.nn.Linear(4, 5), ["x"], ["h"]),
        TensorDictModule(torch.nn.Linear(5, 2), ["h"], ["y"]),
    )

    def call(x: Any) -> Any:
        found = made(TensorDict({"x": x, "more": {"z": x * 2}}, batch_size=[6]))
        both = torch.stack([found, found.clone()])
        joined = torch.cat([found, found])
        return both["y"], found["more", "z"], joined["x"], found.reshape(2, 3)["h"], found[:2]["x"]

    return Program(made, (draw.normal(6, 4),), call=call)


def operators(draw: Inputs) -> Program:
    import linear_operator as lo
    import torch

    def call(x: Any, d: Any, right: Any) -> Any:
        kernel = lo.to_linear_operator(x @ x.T) + lo.operators.DiagLinearOperator(d.exp())
        low = lo.operators.RootLinearOperator(x)
        return (
            torch.matmul(kernel, right), torch.linalg.solve(kernel, right), torch.logdet(kernel),
            torch.diagonal(kernel, dim1=-2, dim2=-1), torch.add(kernel, low).to_dense(),
            (kernel * 2).sum(), kernel.cholesky().to_dense(),
            kernel.inv_quad_logdet(right, logdet=True),
        )  # fmt: skip

    return Program(None, (draw.normal(6, 4), draw.normal(6), draw.normal(6, 2)), call=call)


# --- solvers --------------------------------------------------------------------------------------


def initial_value(draw: Inputs) -> Program:
    import torch
    import torchode

    made = torch.nn.Linear(3, 3)

    def call(y: Any) -> Any:
        term = torchode.ODETerm(lambda t, y: made(y).tanh())
        control = torchode.IntegralController(atol=1e-6, rtol=1e-4, term=term)
        solver = torchode.AutoDiffAdjoint(torchode.Tsit5(term=term), control)
        times = torch.linspace(0, 1, 5, dtype=y.dtype).expand(4, 5)
        return solver.solve(torchode.InitialValueProblem(y0=y, t_eval=times)).ys

    return Program(made, (draw.normal(4, 3),), call=call)


def controlled(draw: Inputs) -> Program:
    import torch
    import torchcde

    class Field(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = torch.nn.Linear(4, 12)

        def forward(self, t: Any, z: Any) -> Any:
            return self.inside(z).view(-1, 4, 3).tanh()

    field = Field()

    def call(x: Any, z: Any) -> Any:
        path = torchcde.CubicSpline(
            torchcde.hermite_cubic_coefficients_with_backward_differences(x)
        )
        solved = torchcde.cdeint(
            X=path, func=field, z0=z, t=path.interval, method="rk4", options={"step_size": 1.0}
        )
        return torchcde.natural_cubic_coeffs(x), solved, path.evaluate(torch.tensor(1.5))

    return Program(field, (draw.normal(2, 6, 3), draw.normal(2, 4)), call=call)


def equations(draw: Inputs) -> Program:
    import torch
    from xitorch import LinearOperator
    from xitorch.integrate import solve_ivp
    from xitorch.linalg import solve, symeig
    from xitorch.optimize import rootfinder

    def call(y: Any, a: Any) -> Any:
        root = rootfinder(lambda y, a: y.tanh() + 0.1 * (a @ y) - 0.3, y, params=(a,))
        times = torch.linspace(0, 1, 4, dtype=y.dtype)
        positive = a @ a.T + 4 * torch.eye(4, dtype=a.dtype)
        return (
            root, solve_ivp(lambda t, y: -y * 0.5, times, y, method="rk4"),
            solve(LinearOperator.m(positive), y[:, None]),
            symeig(LinearOperator.m(a + a.T, is_hermitian=True), method="exacteig")[0],
        )  # fmt: skip

    return Program(None, (draw.normal(4), draw.normal(4, 4)), call=call)


# --- gradients of samples and curvature -----------------------------------------------------------


def samples(draw: Inputs) -> Program:
    import torch
    from opacus.grad_sample import GradSampleModule
    from opacus.optimizers import DPOptimizer

    made = torch.nn.Sequential(
        torch.nn.Conv1d(2, 4, 3), torch.nn.GroupNorm(2, 4), torch.nn.Flatten(),
        torch.nn.Linear(24, 3),
    )  # fmt: skip
    x = draw.normal(5, 2, 8)

    @torch.enable_grad()
    def call() -> Any:
        wrapped = GradSampleModule(made)
        optimizer = DPOptimizer(
            torch.optim.SGD(wrapped.parameters(), 0.1), noise_multiplier=0.0, max_grad_norm=1.0,
            expected_batch_size=5,
        )  # fmt: skip
        wrapped(x).square().mean().backward()
        found = [p.grad_sample.clone() for p in wrapped.parameters()]
        optimizer.step()
        return found, [p.detach() for p in wrapped.parameters()]

    return Program(made, (), call=call, grad=False)


def curvature(draw: Inputs) -> Program:
    import torch
    from backpack import backpack, extend
    from backpack.extensions import BatchGrad, BatchL2Grad, DiagGGNExact, DiagHessian, KFLR

    made, x, kinds = network(), draw.normal(6, 4), draw.ints(3, 6)

    @torch.enable_grad()
    def call() -> Any:
        model, loss = extend(made), extend(torch.nn.CrossEntropyLoss())
        with backpack(BatchGrad(), BatchL2Grad(), DiagGGNExact(), DiagHessian(), KFLR()):
            loss(model(x), kinds).backward()
        return [
            [p.grad_batch, p.batch_l2, p.diag_ggn_exact, p.diag_h, *p.kflr]
            for p in model.parameters()
        ]

    return Program(made, (), call=call, grad=False)


def posterior(draw: Inputs) -> Program:
    import torch
    from laplace import Laplace
    from laplace.curvature import BackPackGGN
    from torch.utils.data import DataLoader, TensorDataset

    made, x, kinds = network(), draw.normal(12, 4), draw.ints(3, 12)

    @torch.enable_grad()
    def call() -> Any:
        found = Laplace(
            made, "classification", subset_of_weights="all", hessian_structure="diag",
            backend=BackPackGGN,
        )  # fmt: skip
        found.fit(DataLoader(TensorDataset(x, kinds), 6))
        return found(x, link_approx="probit"), found.H

    return Program(made, (), call=call, grad=False, train=False)


# --- optimizers -----------------------------------------------------------------------------------


def optimizer(name: str) -> Callable[[Inputs], Program]:
    """A step of an optimizer of pytorch-optimizer."""

    def make(draw: Inputs) -> Program:
        import pytorch_optimizer

        kind = getattr(pytorch_optimizer, name)
        return Program(network(), (draw.normal(6, 4),), optimizer=lambda p: kind(p, lr=0.01))

    return make


ROWS = [
    Row("e3nn harmonics", "e3nn==0.6.0", harmonics),
    Row("e3nn Wigner", "e3nn==0.6.0", rotations_of_wigner),
    Row("roma", "roma==1.8.0", rotations, "float64"),
    Row("invariant points", "invariant-point-attention==0.2.2", points),
    Row("Equiformer", "equiformer-pytorch==0.5.4", equiformer),
    Row("tensordict", "tensordict==0.15.3", containers),
    Row("linear operators", "linear-operator==0.6.1", operators, "float64"),
    Row("torchode", "torchode==1.0.1", initial_value, "float64"),
    Row("torchcde", "torchcde==0.2.5", controlled, "float64"),
    Row("xitorch", "xitorch==0.5.1", equations, "float64"),
    Row("opacus", "opacus==1.6.0", samples),
    Row("BackPACK", "backpack-for-pytorch==1.7.1", curvature),
    Row("Laplace", "laplace-torch==0.3", posterior),
    *(Row(f"pytorch_optimizer {name}", "pytorch-optimizer==4.1.0", optimizer(name))
      for name in "SOAP Adan CAME MADGRAD".split()),
]  # fmt: skip
