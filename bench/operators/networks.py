"""Calls for neural networks: convolutions, pooling, norms, attention, losses, and their
derivatives."""

from __future__ import annotations

from .calls import Call, Group, backward, floats, integers, number, positive, step

_FORWARD = (
    Call("conv2d 3 × 3, 64 of 32²", "F.conv2d(x, w, b, padding=1)"),
    Call("conv2d 3 × 3, 128 of 16²", "F.conv2d(deep, w128, padding=1)"),
    Call("conv2d 3 × 3, stride 2", "F.conv2d(x, w, stride=2, padding=1)"),
    Call("conv2d 1 × 1", "F.conv2d(x, w1)"),
    Call("conv2d 7 × 7, stride 2", "F.conv2d(photo, w7, stride=2, padding=3)"),
    Call("conv2d depthwise", "F.conv2d(x, each, groups=g, padding=1)"),
    Call("conv2d of one digit", "F.conv2d(digit, w5)"),
    Call("conv1d", "F.conv1d(sound, w_sound, padding=2)"),
    Call("conv3d", "F.conv3d(volume, w_volume, padding=1)"),
    Call("conv_transpose2d", "F.conv_transpose2d(x, up, stride=2)"),
    Call("max_pool2d", "F.max_pool2d(x, 2)"),
    Call("max_pool2d 3 × 3, stride 2", "F.max_pool2d(x, 3, 2, 1)"),
    Call("avg_pool2d", "F.avg_pool2d(x, 2)"),
    Call("adaptive_avg_pool2d to 1", "F.adaptive_avg_pool2d(x, 1)"),
    Call("adaptive_avg_pool2d to 7", "F.adaptive_avg_pool2d(x, 7)"),
    Call("batch_norm in training", "F.batch_norm(x, mean, var, b, c, True)"),
    Call("batch_norm in eval", "F.batch_norm(x, mean, var, b, c)"),
    Call("group_norm", "F.group_norm(x, 8, b, c)"),
    Call("instance_norm", "F.instance_norm(x)"),
    Call("layer_norm", "F.layer_norm(tokens, tokens.shape[-1:], scale, shift)"),
    Call("rms_norm", "F.rms_norm(tokens, tokens.shape[-1:], scale)"),
    Call("normalize", "F.normalize(tokens, dim=-1)"),
    Call("attention", "F.scaled_dot_product_attention(q, k, v)"),
    Call("attention, causal", "F.scaled_dot_product_attention(q, k, v, is_causal=True)"),
    Call("interpolate bilinear", "F.interpolate(x, scale_factor=2, mode='bilinear')"),
    Call("interpolate nearest", "F.interpolate(x, scale_factor=2)"),
    Call("grid_sample", "F.grid_sample(x, grid, align_corners=False)"),
    Call("cross_entropy", "F.cross_entropy(logits, target)"),
    Call("cross_entropy of a vocabulary", "F.cross_entropy(words, following)"),
    Call("mse_loss", "F.mse_loss(tokens, wanted)"),
    Call("smooth_l1_loss", "F.smooth_l1_loss(tokens, wanted)"),
    Call("bce with logits", "F.binary_cross_entropy_with_logits(logits, probable)"),
    Call("kl_div", "F.kl_div(logits, probable, reduction='batchmean')"),
)

_BACKWARD = (
    backward("relu", "F.relu(tokens)", "tokens"),
    backward("gelu", "F.gelu(tokens)", "tokens"),
    backward("silu", "F.silu(tokens)", "tokens"),
    backward("product", "tokens * wanted", "tokens, wanted"),
    backward("sum of rows", "tokens.sum(-1)", "tokens"),
    backward("bias of a row", "tokens + scale", "tokens, scale"),
    backward("softmax", "torch.softmax(tokens, -1)", "tokens"),
    backward("layer_norm", "F.layer_norm(tokens, tokens.shape[-1:], scale, shift)",
             "tokens, scale, shift"),
    backward("batch_norm", "F.batch_norm(x, mean, var, b, c, True)", "x, b, c"),
    backward("linear", "F.linear(tokens, wide, shift4)", "tokens, wide, shift4"),
    backward("conv2d", "F.conv2d(x, w, b, padding=1)", "x, w, b"),
    backward("conv2d depthwise", "F.conv2d(x, each, groups=g, padding=1)", "x, each"),
    backward("max_pool2d", "F.max_pool2d(x, 2)"),
    backward("avg_pool2d", "F.avg_pool2d(x, 2)"),
    backward("attention", "F.scaled_dot_product_attention(q, k, v)", "q, k, v"),
    backward("attention with a learned mask",
             "F.scaled_dot_product_attention(q, k, v, attn_mask=slope)", "q, k, v, slope"),
    backward("attention of one in four heads",
             "F.scaled_dot_product_attention(q, k2, v2, enable_gqa=True)", "q, k2, v2"),
    backward("grid_sample", "F.grid_sample(x, grid, align_corners=False)", "x, grid"),
    backward("embedding", "F.embedding(ids, table)", "table"),
    backward("cross_entropy", "F.cross_entropy(words, following)", "words"),
    backward("rows by index", "table[ids]", "table"),
    step("step of a perceptron", "F.linear(F.relu(F.linear(pixels, w_in, b_in)), w_out)",
         "w_in, b_in, w_out"),
    step("step of a convolution", "F.max_pool2d(F.relu(F.conv2d(x, w, b, padding=1)), 2)", "w, b"),
    step("step of attention", "F.scaled_dot_product_attention(q, k, v)", "q, k, v"),
)  # fmt: skip


def groups() -> list[Group]:
    given = {
        "x": floats(8, 64, 32, 32), "w": floats(64, 64, 3, 3), "b": floats(64), "c": floats(64),
        "mean": floats(64), "var": positive(64), "w1": floats(64, 64, 1, 1), "g": number(64),
        "each": floats(64, 1, 3, 3), "up": floats(64, 64, 2, 2), "deep": floats(8, 128, 16, 16),
        "w128": floats(128, 128, 3, 3), "photo": floats(4, 3, 224, 224), "w7": floats(64, 3, 7, 7),
        "digit": floats(1, 1, 28, 28), "w5": floats(8, 1, 5, 5), "sound": floats(8, 64, 1000),
        "w_sound": floats(64, 64, 5), "volume": floats(2, 16, 16, 32, 32),
        "w_volume": floats(16, 16, 3, 3, 3), "grid": floats(8, 32, 32, 2, low=-1.0, high=1.0),
        "tokens": floats(16, 128, 512), "wanted": floats(16, 128, 512), "scale": floats(512),
        "shift": floats(512), "wide": floats(1024, 512), "shift4": floats(1024),
        "q": floats(4, 8, 256, 64), "k": floats(4, 8, 256, 64), "v": floats(4, 8, 256, 64),
        "k2": floats(4, 2, 256, 64), "v2": floats(4, 2, 256, 64), "slope": floats(8, 256, 256),
        "logits": floats(256, 1000), "target": integers(256, below=1000),
        "probable": floats(256, 1000, low=0.01, high=0.99), "words": floats(256, 32_000),
        "following": integers(256, below=32_000), "table": floats(20_000, 256),
        "ids": integers(32, 128, below=20_000), "pixels": floats(128, 784),
        "w_in": floats(512, 784), "b_in": floats(512), "w_out": floats(10, 512),
    }  # fmt: skip
    return [
        Group("conv, pool, norm, attention, loss", given, _FORWARD),
        Group("backward", given, _BACKWARD),
    ]
