"""Functions, metrics, losses, solvers and optimizers of many packages."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .program import Inputs, Program, Row

NEEDS = (
    "lightning-utilities==0.15.3", "kornia-rs==0.2.0", "trampoline==0.1.2", "boltons==26.2.0",
    "pytorch-ranger==0.1.1", "tqdm==4.70.1", "torchvision==0.28.0", "einops==0.8.2",
)  # fmt: skip
KORNIA = "kornia==0.9.0"
METRICS = "torchmetrics==1.9.0"
LEARNING = "pytorch-metric-learning==2.9.0"


def network() -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))


def differential(method: str, adjoint: bool = False) -> Callable[[Inputs], Program]:
    """A neural ordinary differential equation of torchdiffeq."""

    def make(draw: Inputs) -> Program:
        import torch
        import torchdiffeq
        from torch import nn

        class Field(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.inside = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 3))

            def forward(self, t: Any, y: Any) -> Any:
                return self.inside(y) * torch.cos(t)

        field, times = Field(), torch.linspace(0.0, 1.0, 5)
        solve = torchdiffeq.odeint_adjoint if adjoint else torchdiffeq.odeint

        def call(y: Any) -> Any:
            return solve(field, y, times.to(y.dtype), method=method, rtol=1e-6, atol=1e-8)

        return Program(field, (draw.normal(4, 3),), call=call)

    return make


def images(call: Callable[[Any, Any], Any], *shape: int) -> Callable[[Inputs], Program]:
    """A function of kornia and images within [0, 1): `call(kornia, images)`."""

    def make(draw: Inputs) -> Program:
        import kornia

        x = draw.uniform(*(shape or (2, 3, 12, 14))) * 0.9 + 0.05
        return Program(None, (x,), call=lambda x: call(kornia, x))

    return make


def filters(kornia: Any, x: Any) -> Any:
    f = kornia.filters
    return f.sobel(x), f.spatial_gradient(x)


def blurs(kornia: Any, x: Any) -> Any:
    f = kornia.filters
    return (
        f.gaussian_blur2d(x, (3, 5), (1.0, 1.5)), f.laplacian(x, 3), f.box_blur(x, (3, 3)),
        f.median_blur(x, (3, 3)), f.unsharp_mask(x, (3, 3), (1.0, 1.0)),
        f.bilateral_blur(x, (3, 3), 0.1, (1.0, 1.0)),
    )  # fmt: skip


def colours(kornia: Any, x: Any) -> Any:
    c = kornia.color
    return (
        c.rgb_to_grayscale(x), c.rgb_to_hsv(x), c.rgb_to_lab(x), c.rgb_to_ycbcr(x), c.rgb_to_luv(x),
        c.rgb_to_xyz(x), c.rgb_to_hls(x), c.rgb_to_yuv(x), c.lab_to_rgb(c.rgb_to_lab(x)),
    )  # fmt: skip


def geometry(kornia: Any, x: Any) -> Any:
    import torch

    g = kornia.geometry
    angle = torch.tensor([30.0, -12.0])
    matrix = torch.tensor([[1.0, 0.1, 0.5], [0.05, 0.9, -0.3]]).expand(2, 2, 3)
    square = torch.cat([matrix, torch.tensor([[[0.0, 0.001, 1.0]]]).expand(2, 1, 3)], 1)
    return (
        g.rotate(x, angle), g.translate(x, torch.tensor([[1.5, -2.0], [0.5, 1.0]])),
        g.scale(x, torch.tensor([[1.2, 0.8], [0.9, 1.1]])), g.hflip(x), g.vflip(x),
        g.resize(x, (8, 9)), g.warp_affine(x, matrix, (10, 11)), g.pyrdown(x), g.pyrup(x),
        g.warp_perspective(x, square, (10, 11)), g.center_crop(x, (6, 7)),
    )  # fmt: skip


def rotations(draw: Inputs) -> Program:
    from kornia.geometry import conversions as c

    def call(axes: Any) -> Any:
        matrix = c.axis_angle_to_rotation_matrix(axes)
        quaternion = c.rotation_matrix_to_quaternion(matrix)
        return matrix, quaternion, c.quaternion_to_axis_angle(quaternion)

    return Program(None, (draw.normal(5, 3),), call=call)


def enhanced(kornia: Any, x: Any) -> Any:
    e = kornia.enhance
    return (
        e.adjust_brightness(x, 0.1), e.adjust_contrast(x, 0.8), e.adjust_gamma(x, 1.4),
        e.adjust_hue(x, 0.2), e.adjust_saturation(x, 1.2), e.normalize_min_max(x),
        e.sharpness(x, 0.5),
    )  # fmt: skip


def features(kornia: Any, x: Any) -> Any:
    f = kornia.feature
    return f.harris_response(x, 0.04), f.gftt_response(x), f.hessian_response(x)


def losses(kornia: Any, x: Any) -> Any:
    import torch

    l = kornia.losses
    y = x.detach().flip(-1)
    kinds = torch.arange(2 * 12 * 14).reshape(2, 12, 14) % 3
    return (
        l.ssim_loss(x, y, 5), l.psnr_loss(x, y, 1.0), l.total_variation(x),
        l.focal_loss(x, kinds, 0.5, 2.0, "mean"), l.dice_loss(x, kinds), l.charbonnier_loss(x, y),
    )  # fmt: skip


def metrics(module: str, names: str, kind: str, **settings: Any) -> Callable[[Inputs], Program]:
    """Return a row for metrics of torchmetrics over two batches."""

    def make(draw: Inputs) -> Program:
        source = import_module(module)
        batches = []
        for _ in range(2):
            if kind == "classes":
                batches.append((draw.uniform(20, 4), draw.ints(4, 20)))
            elif kind == "images":
                batches.append((draw.uniform(2, 3, 24, 24), draw.uniform(2, 3, 24, 24)))
            else:
                batches.append((draw.normal(20), draw.normal(20)))

        def call() -> Any:
            found = {}
            for name in names.split():
                metric = getattr(source, name)(**settings)
                for batch in batches:
                    metric.update(*batch)
                found[name] = metric.compute()
            return found

        return Program(None, (), call=call, grad=False)

    return make


def ssim(draw: Inputs) -> Program:
    from pytorch_msssim import ms_ssim, ssim

    def call(x: Any, y: Any) -> Any:
        return ssim(x, y, data_range=1.0), ms_ssim(x, y, data_range=1.0, win_size=3)

    return Program(None, (draw.uniform(1, 3, 48, 48), draw.uniform(1, 3, 48, 48)), call=call)


def entmax(draw: Inputs) -> Program:
    import entmax

    kinds = draw.ints(7, 5)

    def call(x: Any) -> Any:
        return (
            entmax.sparsemax(x, dim=-1), entmax.entmax15(x, dim=-1),
            entmax.entmax_bisect(x, alpha=1.3, dim=-1), entmax.sparsemax_loss(x, kinds),
            entmax.entmax15_loss(x, kinds), entmax.budget_bisect(x, budget=2, dim=-1),
        )  # fmt: skip

    return Program(None, (draw.normal(5, 7),), call=call)


def contrast(draw: Inputs) -> Program:
    from info_nce import InfoNCE

    made = InfoNCE(negative_mode="unpaired")
    return Program(None, (draw.normal(6, 8), draw.normal(6, 8), draw.normal(9, 8)), call=made)


def embedding_losses(names: str) -> Callable[[Inputs], Program]:
    def make(draw: Inputs) -> Program:
        from pytorch_metric_learning import losses

        kinds = draw.ints(3, 12)
        made = [getattr(losses, name)() for name in names.split()]
        return Program(None, (draw.normal(12, 8),), call=lambda x: [f(x, kinds) for f in made])

    return make


def optimized(module: str, name: str, steps: int = 1, **settings: Any) -> Any:
    """Return a row for a small network with an optimizer of the package."""

    def make(draw: Inputs) -> Program:
        kind = getattr(import_module(module), name)
        return Program(
            network(), (draw.normal(6, 4),), optimizer=lambda params: kind(params, **settings)
        )

    return make


def schedule_free(draw: Inputs) -> Program:
    import schedulefree

    def make(params: Any) -> Any:
        made = schedulefree.AdamWScheduleFree(params, lr=0.01)
        made.train()
        return made

    return Program(network(), (draw.normal(6, 4),), optimizer=make)


def averaged(draw: Inputs) -> Program:
    import torch
    from ema_pytorch import EMA

    made = EMA(network(), beta=0.9, update_after_step=0, update_every=1)

    def call(x: Any) -> Any:
        with torch.no_grad():
            for parameter in made.model.parameters():
                parameter.add_(0.1)
        made.update()
        made.update()
        return made.model(x), made(x)

    return Program(made, (draw.normal(6, 4),), call=call)


ROWS = [
    *(Row(f"torchdiffeq {method}", "torchdiffeq==0.2.5", differential(method), "float64")
      for method in ("euler", "rk4", "dopri5", "bosh3", "implicit_adams")),
    Row("torchdiffeq adjoint", "torchdiffeq==0.2.5", differential("dopri5", True), "float64"),
    Row("kornia filters", KORNIA, images(filters)),
    Row("kornia blurs", KORNIA, images(blurs)),
    Row("kornia colours", KORNIA, images(colours), "float64"),
    Row("kornia geometry", KORNIA, images(geometry)),
    Row("kornia rotations", KORNIA, rotations),
    Row("kornia enhanced", KORNIA, images(enhanced)),
    Row("kornia features", KORNIA, images(features, 2, 1, 12, 14)),
    Row("kornia losses", KORNIA, images(losses)),
    Row("torchmetrics of classes", METRICS, metrics(
        "torchmetrics.classification", "MulticlassAccuracy MulticlassF1Score MulticlassAUROC "
        "MulticlassConfusionMatrix MulticlassAveragePrecision MulticlassCohenKappa "
        "MulticlassCalibrationError MulticlassMatthewsCorrCoef", "classes", num_classes=4)),
    Row("torchmetrics of regression", METRICS, metrics(
        "torchmetrics.regression", "MeanSquaredError MeanAbsoluteError R2Score PearsonCorrCoef "
        "SpearmanCorrCoef ExplainedVariance ConcordanceCorrCoef KendallRankCorrCoef", "numbers")),
    Row("torchmetrics of images", METRICS, metrics(
        "torchmetrics.image", "StructuralSimilarityIndexMeasure UniversalImageQualityIndex "
        "ErrorRelativeGlobalDimensionlessSynthesis SpectralAngleMapper", "images")),
    Row("SSIM", "pytorch-msssim==1.0.0", ssim),
    Row("entmax", "entmax==1.3", entmax),
    Row("InfoNCE", "info-nce-pytorch==0.1.4", contrast),
    Row("metric learning pairs", LEARNING, embedding_losses(
        "ContrastiveLoss TripletMarginLoss NTXentLoss MultiSimilarityLoss CircleLoss SupConLoss "
        "LiftedStructureLoss")),
    Row("EMA", "ema-pytorch==0.8.3", averaged),
    Row("Lion", "lion-pytorch==0.2.5", optimized("lion_pytorch", "Lion", lr=0.01)),
    Row("Prodigy", "prodigyopt==1.1.2", optimized("prodigyopt", "Prodigy")),
    Row("schedule-free AdamW", "schedulefree==1.4.1", schedule_free),
    Row("torch_optimizer Lamb", "torch-optimizer==0.3.0",
        optimized("torch_optimizer", "Lamb", lr=0.01)),
    *(Row(f"torch_optimizer {name}", "torch-optimizer==0.3.0",
          optimized("torch_optimizer", name, lr=0.01))
      for name in "AdaBound DiffGrad QHAdam RAdam Yogi NovoGrad AdaBelief".split()),
]  # fmt: skip
