"""Networks for images: timm's and torchvision's by name, segmentation models, efficientnet."""

from __future__ import annotations

from typing import Any

from . import transformers_rows
from .program import Inputs, Program, Row

TIMM = "timm==1.0.31"
TORCHVISION = "torchvision==0.28.0"
SEGMENTATION = "segmentation-models-pytorch==0.6.0"
EFFICIENTNET = "efficientnet-pytorch==0.7.1"
NEEDS = transformers_rows.NEEDS


# Without batch norm in training mode, or with few layers of it.
SINGLE = (
    "vit_ deit_ mixer_ resmlp_ swin_ convnext pvt_ poolformer edgenext alexnet squeezenet resnet18"
).split()


def dtype_of(name: str) -> str:
    return "float32" if name.startswith(tuple(SINGLE)) else "float64"


def of_timm(name: str, size: int = 64, **settings: Any) -> Any:
    def make(draw: Inputs) -> Program:
        import timm

        model = timm.create_model(name, num_classes=10, **settings)
        return Program(model, (draw.normal(2, 3, size, size),))

    return make


def of_torchvision(name: str, size: int = 64, **settings: Any) -> Any:
    def make(draw: Inputs) -> Program:
        import torchvision

        model = torchvision.models.get_model(name, weights=None, num_classes=10, **settings)
        return Program(model, (draw.normal(2, 3, size, size),))

    return make


def segmentation(name: str, **settings: Any) -> Any:
    def make(draw: Inputs) -> Program:
        import segmentation_models_pytorch as smp

        model = getattr(smp, name)("resnet18", encoder_weights=None, classes=3, **settings)
        return Program(model, (draw.normal(2, 3, 64, 64),))

    return make


def dice(draw: Inputs) -> Program:
    import segmentation_models_pytorch as smp

    targets = draw.ints(3, 2, 8, 8)

    def losses(x: Any) -> Any:
        return (
            smp.losses.DiceLoss("multiclass")(x, targets),
            smp.losses.FocalLoss("multiclass")(x, targets),
            smp.losses.LovaszLoss("multiclass")(x, targets),
            smp.losses.TverskyLoss("multiclass")(x, targets),
        )

    return Program(None, (draw.normal(2, 3, 8, 8),), call=losses)


def efficientnet(draw: Inputs) -> Program:
    from efficientnet_pytorch import EfficientNet

    model = EfficientNet.from_name("efficientnet-b0", num_classes=10, drop_connect_rate=0.0)
    return Program(model, (draw.normal(2, 3, 64, 64),), train=False)


def boxes(draw: Inputs) -> Program:
    from torchvision import ops

    def call(x: Any, y: Any) -> Any:
        a, b = (ops.box_convert(t + 0.1, "cxcywh", "xyxy") for t in (x, y))
        return ops.box_iou(a, b), ops.generalized_box_iou(a, b), ops.sigmoid_focal_loss(x, y)

    return Program(None, (draw.uniform(5, 4), draw.uniform(5, 4)), call=call)


def transforms(draw: Inputs) -> Program:
    from torchvision.transforms import v2

    call = v2.Compose([
        v2.Resize(24, antialias=True), v2.CenterCrop(16), v2.Normalize([0.5] * 3, [0.2] * 3),
        v2.Grayscale(3), v2.GaussianBlur(3, 1.0),
    ])  # fmt: skip
    return Program(None, (draw.uniform(3, 32, 40),), call=call)


ROWS = [
    *(Row(f"timm {name}", TIMM, of_timm(name, **settings), dtype_of(name)) for name, settings in {
        "resnet18": {}, "resnetv2_50": {}, "mobilenetv3_small_100": {}, "efficientnet_b0": {},
        "regnety_002": {}, "densenet121": {}, "convnext_atto": {}, "ghostnet_050": {},
        "seresnet18": {}, "vovnet39a": {}, "dla34": {}, "mobileone_s0": {}, "repvgg_a0": {},
        "vit_tiny_patch16_224": {"img_size": 64},
        "deit_tiny_patch16_224": {"img_size": 64},
        "mixer_s32_224": {"img_size": 64},
        "resmlp_12_224": {"img_size": 64},
        "swin_tiny_patch4_window7_224": {
            "img_size": 64, "window_size": 4, "embed_dim": 24, "depths": (1, 1, 1, 1)},
        "pvt_v2_b0": {}, "poolformer_s12": {}, "edgenext_xx_small": {}, "fastvit_t8": {},
        "levit_128s": {"img_size": 64} , "xcit_nano_12_p16_224": {"img_size": 64},
    }.items()),
    *(Row(f"torchvision {name}", TORCHVISION, of_torchvision(name, **settings), dtype_of(name))
      for name, settings in {
        "alexnet": {}, "resnet18": {}, "squeezenet1_1": {}, "mobilenet_v2": {},
        "shufflenet_v2_x0_5": {}, "mnasnet0_5": {}, "regnet_y_400mf": {},
        "vit_b_16": {"image_size": 64}, "swin_t": {}, "googlenet": {"aux_logits": False},
        "fcn_resnet50": {"weights_backbone": None}, "lraspp_mobilenet_v3_large": {
            "weights_backbone": None},
    }.items()),
    Row("torchvision boxes", TORCHVISION, boxes),
    Row("torchvision transforms", TORCHVISION, transforms),
    Row("segmentation Unet", SEGMENTATION, segmentation("Unet"), "float64"),
    Row("segmentation FPN", SEGMENTATION, segmentation("FPN", decoder_dropout=0.0), "float64"),
    Row("segmentation DeepLabV3Plus", SEGMENTATION, segmentation("DeepLabV3Plus"), "float64"),
    Row("segmentation PSPNet", SEGMENTATION, segmentation("PSPNet", psp_dropout=0.0), "float64"),
    Row("segmentation losses", SEGMENTATION, dice),
    Row("EfficientNet", EFFICIENTNET, efficientnet),
]  # fmt: skip
