"""Layers and small networks of many packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .program import Inputs, Program, Row

NEEDS = (
    "einops==0.8.2", "einx==0.4.3", "frozendict==2.5.1", "loguru==0.7.3", "tqdm==4.70.1",
    "torch-einops-utils==0.2.0", "dacite==1.9.2", "hyper-connections==0.4.11",
    "torchvision==0.28.0", "axial-positional-embedding==0.3.12", "x-mlps-pytorch==0.6.9",
    "linformer==0.2.3", "colt5-attention==0.11.2", "accelerate==1.15.0",
    "ema-pytorch==0.8.3",
)  # fmt: skip


def layer(module: str, name: str, *arguments: Any, x: tuple[int, ...], train: bool = True,
          **settings: Any) -> Callable[[Inputs], Program]:  # fmt: skip
    """Return a row for a module that takes one floating tensor of sizes `x`."""

    def make(draw: Inputs) -> Program:
        from importlib import import_module

        made = getattr(import_module(module), name)(*arguments, **settings)
        return Program(made, (draw.normal(*x),), train=train)

    return make


def einops_layers(draw: Inputs) -> Program:
    import torch
    from einops.layers.torch import EinMix, Rearrange, Reduce

    made = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=4, q=4),
        EinMix("b n c -> b n d", weight_shape="c d", bias_shape="d", c=48, d=24),
        torch.nn.GELU(),
        Reduce("b n d -> b d", "mean"),
    )
    return Program(made, (draw.normal(2, 3, 16, 16),))


def rotary(draw: Inputs) -> Program:
    from rotary_embedding_torch import RotaryEmbedding

    made = RotaryEmbedding(dim=8, use_xpos=False)
    return Program(made, (draw.normal(2, 4, 10, 16),), call=made.rotate_queries_or_keys)


def positions(draw: Inputs) -> Program:
    from positional_encodings.torch_encodings import PositionalEncoding2D, Summer

    return Program(Summer(PositionalEncoding2D(8)), (draw.normal(2, 4, 5, 8),))


def x_decoder(draw: Inputs, **settings: Any) -> Program:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **settings)
    made = TransformerWrapper(num_tokens=60, max_seq_len=16, attn_layers=layers)
    return Program(AutoregressiveWrapper(made), (draw.ints(60, 2, 12),))


def x_generates(draw: Inputs) -> Program:
    from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True)
    made = AutoregressiveWrapper(
        TransformerWrapper(num_tokens=60, max_seq_len=16, attn_layers=layers)
    )
    keywords = {"seq_len": 6, "temperature": 0.0, "cache_kv": True}
    return Program(made, (draw.ints(60, 2, 4),), keywords, made.generate, train=False, grad=False)


def x_encoder(draw: Inputs) -> Program:
    from x_transformers import Encoder

    made = Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, ff_glu=True, use_rmsnorm=True)
    return Program(made, (draw.normal(2, 9, 32),))


def vit(name: str, module: str = "vit_pytorch", **settings: Any) -> Callable[[Inputs], Program]:
    """A network of vit-pytorch of small sizes, on images of 32 x 32."""

    def make(draw: Inputs) -> Program:
        from importlib import import_module

        made = getattr(import_module(module), name)(num_classes=10, **settings)
        return Program(made, (draw.normal(2, 3, 32, 32),))

    return make


def quantizer(name: str, grad: bool = True, **settings: Any) -> Callable[[Inputs], Program]:
    def make(draw: Inputs) -> Program:
        import vector_quantize_pytorch

        made = getattr(vector_quantize_pytorch, name)(**settings)
        return Program(made, (draw.normal(2, 10, 16),), train=False, grad=grad)

    return make


def local_attention(draw: Inputs) -> Program:
    from local_attention import LocalAttention

    made = LocalAttention(dim=8, window_size=4, causal=True, look_backward=1, autopad=True)
    return Program(made, tuple(draw.normal(2, 3, 16, 8) for _ in range(3)))


def linear_attention(draw: Inputs) -> Program:
    from linear_attention_transformer import LinearAttentionTransformerLM

    made = LinearAttentionTransformerLM(
        num_tokens=50, dim=32, heads=4, depth=2, max_seq_len=16, causal=False
    )
    return Program(made, (draw.ints(50, 2, 16),))


def linformer(draw: Inputs) -> Program:
    from linformer import Linformer

    made = Linformer(dim=32, seq_len=16, depth=2, heads=4, k=8, one_kv_head=True, share_kv=True)
    return Program(made, (draw.normal(2, 16, 32),))


def perceiver(draw: Inputs) -> Program:
    from perceiver_pytorch import Perceiver

    made = Perceiver(
        input_channels=3, input_axis=2, num_freq_bands=3, max_freq=8.0, depth=2, num_latents=6,
        latent_dim=16, cross_heads=1, latent_heads=2, cross_dim_head=8, latent_dim_head=8,
        num_classes=10,
    )  # fmt: skip
    return Program(made, (draw.normal(2, 8, 8, 3),))


def egnn(draw: Inputs) -> Program:
    from egnn_pytorch import EGNN

    made = EGNN(dim=16, edge_dim=4, m_dim=8)
    return Program(made, (draw.normal(2, 6, 16), draw.normal(2, 6, 3), draw.normal(2, 6, 6, 4)))


def tab_transformer(name: str) -> Callable[[Inputs], Program]:
    def make(draw: Inputs) -> Program:
        import tab_transformer_pytorch

        made = getattr(tab_transformer_pytorch, name)(
            categories=(4, 5, 6), num_continuous=3, dim=16, dim_out=1, depth=2, heads=2
        )
        return Program(made, (draw.ints(4, 5, 3), draw.normal(5, 3)))

    return make


def memories(draw: Inputs) -> Program:
    from product_key_memory import PKM

    made = PKM(dim=16, heads=2, num_keys=8, topk=4, dim_head=8, use_layernorm=True)
    return Program(made, (draw.normal(2, 6, 16),))


def unet(draw: Inputs) -> Program:
    from denoising_diffusion_pytorch import Unet

    made = Unet(dim=8, dim_mults=(1, 2), flash_attn=False)
    return Program(made, (draw.normal(2, 3, 16, 16), draw.uniform(2) * 100))


def conformer(draw: Inputs) -> Program:
    from conformer import ConformerBlock

    made = ConformerBlock(dim=16, dim_head=8, heads=2, ff_mult=2, conv_kernel_size=5)
    return Program(made, (draw.normal(2, 12, 16),))


def normflow(draw: Inputs) -> Program:
    import normflows

    flows = [normflows.flows.AutoregressiveRationalQuadraticSpline(2, 1, 16),
             normflows.flows.LULinearPermute(2)]  # fmt: skip
    made = normflows.NormalizingFlow(normflows.distributions.DiagGaussian(2, trainable=True), flows)
    return Program(made, (draw.normal(16, 2),), call=made.log_prob)


def nflow(draw: Inputs) -> Program:
    from nflows import distributions, flows, transforms

    transform = transforms.CompositeTransform([
        transforms.ReversePermutation(features=4),
        transforms.MaskedAffineAutoregressiveTransform(features=4, hidden_features=16),
    ])  # fmt: skip
    made = flows.Flow(transform, distributions.StandardNormal([4]))
    return Program(made, (draw.normal(16, 4),), call=made.log_prob)


def zuko_flow(name: str) -> Callable[[Inputs], Program]:
    def make(draw: Inputs) -> Program:
        import zuko

        made = getattr(zuko.flows, name)(3, 2, transforms=2, hidden_features=(16,))
        return Program(
            made, (draw.normal(8, 3), draw.normal(8, 2)), call=lambda x, c: made(c).log_prob(x)
        )

    return make


VIT = {"image_size": 32, "patch_size": 8, "dim": 32, "depth": 2, "heads": 2, "mlp_dim": 48}
X = "x-transformers==2.31.10"
V = "vit-pytorch==1.26.11"
VQ = "vector-quantize-pytorch==1.32.0"
ROWS = [
    Row("einops layers", "einops==0.8.2", einops_layers),
    Row("rotary embedding", "rotary-embedding-torch==0.9.1", rotary),
    Row("x-transformers decoder", X, x_decoder),
    Row("x-transformers ALiBi", X, lambda draw: x_decoder(draw, alibi_pos_bias=True)),
    Row("x-transformers grouped", X, lambda draw: x_decoder(
        draw, rotary_pos_emb=True, attn_kv_heads=2, ff_swish=True, ff_glu=True)),
    Row("x-transformers encoder", X, x_encoder),
    Row("x-transformers generates", X, x_generates),
    Row("vit-pytorch ViT", V, vit("ViT", **VIT)),
    Row("vit-pytorch SimpleViT", V, vit("SimpleViT", **VIT)),
    Row("vit-pytorch DeepViT", V, vit("DeepViT", "vit_pytorch.deepvit", **VIT)),
    Row("vit-pytorch CaiT", V, vit(
        "CaiT", "vit_pytorch.cait", **VIT, cls_depth=1), "float32"),
    Row("vit-pytorch CCT", V, vit(
        "CCT", "vit_pytorch.cct", img_size=32, embedding_dim=32, n_conv_layers=1, num_layers=2,
        num_heads=2, mlp_ratio=2.0)),
    Row("vit-pytorch CvT", V, vit("CvT", "vit_pytorch.cvt"), "float64"),
    Row("positional encodings", "positional-encodings==6.0.3", positions),
    Row("vector quantize", VQ, quantizer(
        "VectorQuantize", grad=False, dim=16, codebook_size=32)),
    Row("finite scalar quantization", VQ, quantizer("FSQ", levels=[8, 5, 5], dim=16)),
    Row("lookup-free quantization", VQ, quantizer("LFQ", codebook_size=64, dim=16)),
    Row("local attention", "local-attention==1.11.2", local_attention),
    Row("linear attention", "linear-attention-transformer==0.19.1", linear_attention),
    Row("Linformer", "linformer==0.2.3", linformer),
    Row("Perceiver", "perceiver-pytorch==0.11.0", perceiver),
    Row("Performer", "performer-pytorch==1.1.4", layer(
        "performer_pytorch", "SelfAttention", dim=16, heads=2, dim_head=8, x=(2, 8, 16))),
    Row("Reformer", "reformer-pytorch==1.4.4", layer(
        "reformer_pytorch", "LSHSelfAttention", dim=16, heads=2, bucket_size=4, n_hashes=2,
        full_attn_thres=64, x=(2, 8, 16))),
    Row("axial attention", "axial-attention==0.6.1", layer(
        "axial_attention", "AxialAttention", dim=16, dim_index=1, heads=2, num_dimensions=2,
        x=(2, 16, 6, 6))),
    Row("product keys", "product-key-memory==0.3.0", memories, "float64"),
    Row("EGNN", "egnn-pytorch==0.2.8", egnn),
    Row("MLP-Mixer", "mlp-mixer-pytorch==0.3.1", layer(
        "mlp_mixer_pytorch", "MLPMixer", image_size=32, channels=3, patch_size=8, dim=24, depth=2,
        num_classes=10, x=(2, 3, 32, 32))),
    Row("gMLP", "g-mlp-pytorch==0.1.5", layer(
        "g_mlp_pytorch", "gMLPVision", image_size=32, patch_size=8, num_classes=10, dim=24, depth=2,
        x=(2, 3, 32, 32), train=False)),
    Row("Nystromformer", "nystrom-attention==0.0.14", layer(
        "nystrom_attention", "NystromAttention", dim=16, dim_head=8, heads=2, num_landmarks=4,
        x=(2, 16, 16))),
    Row("Conformer", "conformer==0.3.2", conformer, "float64"),
    Row("soft experts", "soft-moe-pytorch==0.1.9", layer(
        "soft_moe_pytorch", "SoftMoE", dim=16, seq_len=8, num_experts=2, x=(2, 8, 16))),
    Row("lambda layer", "lambda-networks==0.4.0", layer(
        "lambda_networks", "LambdaLayer", dim=8, dim_out=8, r=3, dim_k=4, heads=2, dim_u=2,
        x=(2, 8, 6, 6)), "float64"),
    Row("halo attention", "halonet-pytorch==0.0.5", layer(
        "halonet_pytorch", "HaloAttention", dim=8, block_size=4, halo_size=2, dim_head=4, heads=2,
        x=(2, 8, 8, 8))),
    Row("TabTransformer", "tab-transformer-pytorch==0.4.1", tab_transformer("TabTransformer")),
    Row("FT-Transformer", "tab-transformer-pytorch==0.4.1", tab_transformer("FTTransformer")),
    Row("diffusion U-Net", "denoising-diffusion-pytorch==2.3.4", unet),
    Row("normflows spline", "normflows==1.7.3", normflow),
    Row("nflows MAF", "nflows==0.14", nflow),
    *(Row(f"zuko {name}", "zuko==1.6.0", zuko_flow(name)) for name in ("NSF", "MAF")),
]  # fmt: skip
