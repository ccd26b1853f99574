"""Attacks and explanations, spikes, sound, images and texts."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from .program import Inputs, Program, Row

NEEDS = (
    "accelerate==1.15.0", "anyio==4.16.0", "beartype==0.23.1", "colt5-attention==0.11.2",
    "datasets==5.2.0", "dill==0.4.1", "einops==0.8.2", "einx==0.4.3", "frozendict==2.5.1",
    "ftfy==6.3.1", "h11==0.16.0", "httpcore2==2.16.2", "httpx2==2.16.2", "huggingface-hub==2.4.0",
    "hyper-connections==0.4.11", "iopath==0.1.10", "jaxtyping==0.3.11",
    "lightning-utilities==0.15.3", "local-attention==1.11.2", "loguru==0.7.3",
    "multiprocess==0.70.19", "portalocker==4.4.2", "pyarrow==26.0.1", "pywavelets==1.9.0",
    "regex==2026.11.19", "rich==15.0.0", "tabulate==0.10.0", "termcolor==3.3.0", "timm==1.0.31",
    "tokenizers==0.23.3", "torchmetrics==1.9.0", "torchvision==0.28.0", "tqdm==4.70.1",
    "transformers==5.23.0", "truststore==0.10.5", "wadler-lindig==0.1.8", "wcwidth==0.9.4",
    "xxhash==4.1.0", "typing-extensions==4.16.0", "yacs==0.1.8",
)  # fmt: skip


def classifier() -> Any:
    """A network for images with a layer of features at index 2."""
    from torch import nn

    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip


def layer(
    module: str, name: str, *, x: tuple[int, ...], train: bool = True, **settings: Any
) -> Callable[[Inputs], Program]:
    """Return a row for a module that takes one floating tensor of sizes `x`."""

    def make(draw: Inputs) -> Program:
        made = getattr(import_module(module), name)(**settings)
        return Program(made, (draw.normal(*x),), train=train)

    return make


# --- robustness and explanations ------------------------------------------------------------------


def attacks(draw: Inputs) -> Program:
    import torch
    import torchattacks

    made, x, kinds = classifier(), draw.uniform(5, 3, 8, 8), draw.ints(4, 5)

    @torch.enable_grad()
    def call() -> Any:
        kept = [
            torchattacks.FGSM(made, eps=0.03), torchattacks.MIFGSM(made, steps=3),
            torchattacks.PGD(made, steps=3, random_start=False), torchattacks.CW(made, steps=3),
            torchattacks.DeepFool(made, steps=3),
        ]  # fmt: skip
        return [attack(x, kinds) for attack in kept]

    return Program(made, (), call=call, grad=False, train=False)


def maps(draw: Inputs) -> Program:
    import torch
    from torchcam.methods import GradCAM, GradCAMpp, LayerCAM

    made, x = classifier(), draw.normal(1, 3, 8, 8)

    @torch.enable_grad()
    def call() -> Any:
        found = []
        for kind in (GradCAM, GradCAMpp, LayerCAM):
            with kind(made, made[2]) as extractor:
                found += extractor(1, made(x))
        return found

    return Program(made, (), call=call, grad=False, train=False)


# --- spikes ---------------------------------------------------------------------------------------


def leaky(draw: Inputs) -> Program:
    import snntorch
    import torch
    from snntorch import surrogate

    class Spiking(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = torch.nn.Linear(4, 6), torch.nn.Linear(6, 2)
            self.leaky = snntorch.Leaky(beta=0.9, spike_grad=surrogate.fast_sigmoid())
            self.synaptic = snntorch.Synaptic(alpha=0.8, beta=0.7, spike_grad=surrogate.atan())

        def forward(self, x: Any) -> Any:
            state, (current, membrane) = self.leaky.init_leaky(), self.synaptic.init_synaptic()
            found = []
            for step in x:
                spikes, state = self.leaky(self.first(step), state)
                spikes, current, membrane = self.synaptic(spikes, current, membrane)
                found.append(self.last(spikes) + membrane.mean())
            return torch.stack(found)

    return Program(Spiking(), (draw.normal(5, 3, 4) * 3,))


def jelly(draw: Inputs) -> Program:
    import torch
    from spikingjelly.activation_based import functional, layer, neuron, surrogate

    made = torch.nn.Sequential(
        layer.Linear(4, 6), neuron.LIFNode(surrogate_function=surrogate.ATan()),
        layer.Linear(6, 2), neuron.IFNode(surrogate_function=surrogate.Sigmoid()),
    )  # fmt: skip

    def call(x: Any) -> Any:
        functional.reset_net(made)
        return sum(made(step) for step in x)

    return Program(made, (draw.normal(4, 3, 4) * 4,), call=call)


# --- sound and signals ----------------------------------------------------------------------------


def sound_losses(draw: Inputs) -> Program:
    from auraloss import freq, time

    kept = (
        freq.STFTLoss(fft_size=64, hop_size=16, win_length=64), time.SISDRLoss(), time.ESRLoss(),
        freq.MultiResolutionSTFTLoss([64, 32], [16, 8], [64, 32]), time.LogCoshLoss(),
    )  # fmt: skip
    return Program(
        None, (draw.normal(2, 1, 256), draw.normal(2, 1, 256)),
        call=lambda x, y: [loss(x, y) for loss in kept],
    )  # fmt: skip


def filters(draw: Inputs) -> Program:
    import julius

    def call(x: Any) -> Any:
        return (
            julius.lowpass_filter(x, 0.1), julius.resample_frac(x, 4, 3),
            julius.split_bands(x, 1.0, 4), julius.fft_conv1d(x[:, None], x[:1, None, :8]),
        )  # fmt: skip

    return Program(None, (draw.normal(2, 128),), call=call)


def spectra(draw: Inputs) -> Program:
    import torch
    from nnAudio import features

    settings = {"n_fft": 64, "hop_length": 16, "verbose": False}
    made = torch.nn.ModuleList([
        features.STFT(output_format="Magnitude", **settings),
        features.MelSpectrogram(sr=2000, n_mels=8, **settings),
    ])  # fmt: skip
    return Program(made, (draw.normal(2, 256),), call=lambda x: [part(x) for part in made])


def wavelets(draw: Inputs) -> Program:
    import ptwt

    def call(x: Any, y: Any) -> Any:
        line = ptwt.wavedec(x, "db2", level=2, mode="zero")
        plane = ptwt.wavedec2(y, "haar", level=1)
        return line, ptwt.waverec(line, "db2"), plane[0], [*plane[1]], ptwt.waverec2(plane, "haar")

    return Program(None, (draw.normal(3, 32), draw.normal(2, 16, 16)), call=call)


def cosines(draw: Inputs) -> Program:
    import torch_dct

    def call(x: Any) -> Any:
        return torch_dct.dct(x), torch_dct.idct(x), torch_dct.dct_2d(x), torch_dct.dct1(x)

    return Program(None, (draw.normal(2, 6, 8),), call=call)


# --- images and text ------------------------------------------------------------------------------


def pictures_and_texts(draw: Inputs) -> Program:
    import open_clip

    picture = {"layers": 2, "width": 32, "patch_size": 8, "image_size": 32, "head_width": 16}
    text = {"context_length": 10, "vocab_size": 50, "width": 32, "heads": 2, "layers": 2}
    made, loss = open_clip.CLIP(16, picture, text), open_clip.loss.ClipLoss()

    def call(pictures: Any, texts: Any) -> Any:
        found = made(pictures, texts)
        return found, loss(*found)

    return Program(made, (draw.normal(3, 3, 32, 32), draw.ints(50, 3, 10)), call=call)


def sentences(draw: Inputs) -> Program:
    import torch
    from sentence_transformers import models, util

    pool, made = models.Pooling(8, pooling_mode="mean"), models.Dense(8, 6)

    def call(x: Any) -> Any:
        mask = torch.ones(4, 5, dtype=torch.long)
        found = made(pool({"token_embeddings": x, "attention_mask": mask}))["sentence_embedding"]
        return found, util.cos_sim(found, found)

    return Program(made, (draw.normal(4, 5, 8),), call=call)


def perceptual(draw: Inputs) -> Program:
    import lpips

    made = lpips.LPIPS(pretrained=False, pnet_rand=True, net="squeeze", verbose=False)
    return Program(made, (draw.uniform(2, 3, 48, 48), draw.uniform(2, 3, 48, 48)), train=False)


def contrasts(draw: Inputs) -> Program:
    from lightly import loss

    kept = (loss.NTXentLoss(), loss.BarlowTwinsLoss(), loss.VICRegLoss(), loss.DCLLoss())
    return Program(
        None, (draw.normal(6, 8), draw.normal(6, 8)), call=lambda x, y: [f(x, y) for f in kept]
    )


def faces(draw: Inputs) -> Program:
    from facenet_pytorch import InceptionResnetV1

    made = InceptionResnetV1(num_classes=5, classify=True)
    return Program(made, (draw.normal(2, 3, 96, 96),), train=False)


def tags(draw: Inputs) -> Program:
    import torch
    from torchcrf import CRF

    made, kinds = CRF(5, batch_first=True), draw.ints(5, 3, 7)
    mask = torch.arange(7)[None] < torch.tensor([7, 5, 3])[:, None]

    def call(x: Any) -> Any:
        return made(x, kinds, mask=mask), [torch.tensor(found) for found in made.decode(x, mask)]

    return Program(made, (draw.normal(3, 7, 5),), call=call)


def adapted(draw: Inputs) -> Program:
    import loralib
    import torch

    made = torch.nn.Sequential(
        loralib.Linear(4, 8, r=2), torch.nn.ReLU(),
        loralib.MergedLinear(8, 6, r=2, enable_lora=[True, False]),
    )  # fmt: skip
    loralib.mark_only_lora_as_trainable(made)
    return Program(made, (draw.normal(5, 4),))


def splines(draw: Inputs) -> Program:
    from kan import KAN

    made = KAN(width=[2, 3, 1], grid=3, k=3, seed=0, auto_save=False)
    return Program(made, (draw.normal(6, 2),))


def experts(draw: Inputs) -> Program:
    from st_moe_pytorch import MoE, SparseMoEBlock

    made = SparseMoEBlock(MoE(dim=8, num_experts=4, gating_top_n=2))
    return Program(made, (draw.normal(2, 6, 8),), call=lambda x: made(x)[:2], train=False)


def summary(draw: Inputs) -> Program:
    import torch
    import torchinfo

    made = classifier()

    def call() -> Any:
        text = str(torchinfo.summary(made, (1, 3, 8, 8), verbose=0))
        return torch.tensor([ord(letter) for letter in text])

    return Program(made, (), call=call, grad=False)


ROWS = [
    Row("torchattacks", "torchattacks==3.5.1", attacks),
    Row("torchcam", "torchcam==0.5.0", maps),
    Row("snntorch", "snntorch==1.0.0", leaky),
    Row("spikingjelly", "spikingjelly==2.0.0", jelly),
    Row("auraloss", "auraloss==0.4.0", sound_losses),
    Row("julius", "julius==0.2.8", filters),
    Row("nnAudio", "nnaudio==0.3.4", spectra),
    Row("ptwt", "ptwt==1.0.1", wavelets, "float64"),
    Row("torch-dct", "torch-dct==0.1.6", cosines),
    Row("open_clip", "open-clip-torch==3.3.0", pictures_and_texts),
    Row("sentence-transformers", "sentence-transformers==6.2.0", sentences),
    Row("LPIPS", "lpips==0.1.4", perceptual),
    Row("lightly losses", "lightly==1.6.0", contrasts),
    Row("facenet", "facenet-pytorch==2.6.0", faces, "float64"),
    Row("CRF", "pytorch-crf==0.7.2", tags),
    Row("loralib", "loralib==0.1.2", adapted),
    Row("KAN", "pykan==0.2.8", splines),
    Row("sparse experts", "st-moe-pytorch==0.1.8", experts),
    Row("torchinfo", "torchinfo==1.8.0", summary),
    Row("SIREN", "siren-pytorch==0.1.7", layer(
        "siren_pytorch", "SirenNet", dim_in=2, dim_hidden=16, dim_out=3, num_layers=3, x=(6, 2))),
    Row("deformable attention", "deformable-attention==0.0.20", layer(
        "deformable_attention", "DeformableAttention", dim=8, dim_head=4, heads=2,
        downsample_factor=4, offset_groups=2, offset_kernel_size=6, x=(2, 8, 16, 16)), "float64"),
]  # fmt: skip
