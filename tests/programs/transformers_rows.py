"""Programs of transformers: small configurations, with weights saved and loaded both ways."""

from __future__ import annotations

from typing import Any

from .program import Inputs, Program, Row

PACKAGE = "transformers==5.23.0"
# Packages needed to import transformers and to read files.
NEEDS = (
    "huggingface-hub==2.4.0", "tokenizers==0.23.3", "regex==2026.11.19", "tqdm==4.70.1",
    "httpx2==2.16.2", "httpcore2==2.16.2", "truststore==0.10.5", "h11==0.16.0", "anyio==4.16.0",
    "typer==0.29.2", "annotated-doc==0.0.7", "shellingham==1.5.4", "rich==15.0.0",
)  # fmt: skip
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "vocab_size": 99, "max_position_embeddings": 64,
}  # fmt: skip
IMAGE = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "image_size": 32, "patch_size": 8,
}  # fmt: skip
T5 = {"vocab_size": 99, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
# Options of configurations for the first and the last token of a sequence.
ENDS = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
BART = {
    "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "vocab_size": 99,
    "decoder_start_token_id": 1,
}  # fmt: skip
WHISPER = BART | {
    "num_mel_bins": 16, "max_source_positions": 20, "max_target_positions": 30,
    "suppress_tokens": None, "begin_suppress_tokens": None,
}  # fmt: skip


def model(name: str, **settings: Any) -> Any:
    """Return the model of that class with random weights; only its configuration has dropout."""
    import transformers

    found = getattr(transformers, name)
    return found(found.config_class(**settings))


def text(name: str, labels: bool = False, **settings: Any) -> Any:
    """Return a row for a model of tokens: forward, backward, and files in both directions."""

    def make(draw: Inputs) -> Program:
        tokens = draw.ints(90, 2, 12) + 3
        keywords = {"labels": tokens} if labels else {}
        made = model(name, **settings)
        return Program(made, (tokens,), keywords, saves=True, train=False)

    return make


def image(name: str, size: int = 32, **settings: Any) -> Any:
    """Return a row for a model of images."""

    def make(draw: Inputs) -> Program:
        return Program(
            model(name, **settings), (draw.normal(2, 3, size, size),), saves=True, train=False
        )

    return make


def sequences(name: str, **settings: Any) -> Any:
    """Return a row for a model from tokens to tokens."""

    def make(draw: Inputs) -> Program:
        made = model(name, **settings)
        keywords = {"input_ids": draw.ints(90, 2, 9) + 3, "labels": draw.ints(90, 2, 7) + 3}
        return Program(made, (), keywords, saves=True, train=False)

    return make


def generating(name: str, beams: int = 1, **settings: Any) -> Any:
    """Return a row that generates tokens with a cache, greedily or by beam search."""

    def make(draw: Inputs) -> Program:
        made = model(name, **settings)
        tokens = draw.ints(90, 2, 5) + 3
        keywords = {"max_new_tokens": 8, "num_beams": beams, "do_sample": False, "use_cache": True}
        return Program(made, (tokens,), keywords, made.generate, train=False, grad=False)

    return make


def clip(draw: Inputs) -> Program:
    parts = {"text_config": {**SMALL, **ENDS}, "vision_config": IMAGE, "projection_dim": 16}
    keywords = {"input_ids": draw.ints(90, 2, 7) + 3, "pixel_values": draw.normal(2, 3, 32, 32)}
    keywords["return_loss"] = True
    return Program(model("CLIPModel", **parts), (), keywords, saves=True, train=False)


def whisper(draw: Inputs) -> Program:
    made = model("WhisperForConditionalGeneration", **WHISPER, **ENDS)
    keywords = {"input_features": draw.normal(2, 16, 40), "labels": draw.ints(90, 2, 6) + 3}
    return Program(made, (), keywords, saves=True, train=False)


def whisper_generates(draw: Inputs) -> Program:
    made = model("WhisperForConditionalGeneration", **WHISPER, **ENDS)
    keywords = {"input_features": draw.normal(2, 16, 40), "max_new_tokens": 8, "do_sample": False}
    return Program(made, (), keywords, made.generate, train=False, grad=False)


def wav2vec2(draw: Inputs) -> Program:
    settings = {"conv_dim": (16, 16), "conv_stride": (5, 4), "conv_kernel": (10, 8)}
    settings |= {"num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4}
    made = model("Wav2Vec2Model", **SMALL, **settings, num_feat_extract_layers=2)
    return Program(made, (draw.normal(2, 400),), saves=True, train=False)


GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "vocab_size": 99, "n_positions": 64}
GROUPED = SMALL | {"num_key_value_heads": 2}
ROWS = [
    Row("BERT", PACKAGE, text("BertModel", **SMALL)),
    Row("BERT for masked words", PACKAGE, text("BertForMaskedLM", labels=True, **SMALL)),
    Row("RoBERTa", PACKAGE, text("RobertaModel", **SMALL)),
    Row("DistilBERT", PACKAGE, text(
        "DistilBertModel", dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=99)),
    Row("ALBERT", PACKAGE, text("AlbertModel", embedding_size=16, **SMALL)),
    Row("ELECTRA", PACKAGE, text("ElectraModel", embedding_size=16, **SMALL)),
    Row("GPT-2", PACKAGE, text("GPT2LMHeadModel", labels=True, **GPT2)),
    Row("GPT-2 generates", PACKAGE, generating("GPT2LMHeadModel", **GPT2, **ENDS)),
    Row("GPT-2 generates by beams", PACKAGE, generating("GPT2LMHeadModel", 3, **GPT2, **ENDS)),
    Row("GPT-NeoX", PACKAGE, text("GPTNeoXForCausalLM", labels=True, **SMALL)),
    Row("OPT", PACKAGE, text(
        "OPTForCausalLM", labels=True, ffn_dim=48, word_embed_proj_dim=32, **SMALL)),
    Row("Llama", PACKAGE, text("LlamaForCausalLM", labels=True, **GROUPED)),
    Row("Llama generates", PACKAGE, generating("LlamaForCausalLM", **GROUPED, **ENDS)),
    Row("Mistral", PACKAGE, text("MistralForCausalLM", labels=True, sliding_window=8, **GROUPED)),
    Row("Qwen2", PACKAGE, text("Qwen2ForCausalLM", labels=True, **GROUPED)),
    Row("Gemma", PACKAGE, text("GemmaForCausalLM", labels=True, head_dim=8, **GROUPED)),
    Row("Phi", PACKAGE, text("PhiForCausalLM", labels=True, **SMALL)),
    Row("Mixtral", PACKAGE, text(
        "MixtralForCausalLM", labels=True, num_local_experts=4, num_experts_per_tok=2, **GROUPED)),
    Row("Mamba", PACKAGE, text(
        "MambaForCausalLM", hidden_size=32, num_hidden_layers=2, vocab_size=99, state_size=8)),
    Row("T5", PACKAGE, sequences("T5ForConditionalGeneration", decoder_start_token_id=0, **T5)),
    Row("T5 generates by beams", PACKAGE, generating(
        "T5ForConditionalGeneration", 3, decoder_start_token_id=0, **T5)),
    Row("BART", PACKAGE, sequences("BartForConditionalGeneration", **BART, **ENDS)),
    Row("ViT", PACKAGE, image("ViTModel", **IMAGE)),
    Row("DeiT", PACKAGE, image("DeiTModel", **IMAGE)),
    Row("DINOv2", PACKAGE, image("Dinov2Model", **IMAGE)),
    Row("Swin", PACKAGE, image(
        "SwinModel", image_size=32, patch_size=4, embed_dim=16, depths=[1, 1], num_heads=[2, 4],
        window_size=4)),
    Row("ConvNeXt", PACKAGE, image(
        "ConvNextModel", hidden_sizes=[8, 16], depths=[1, 1], num_stages=2)),
    Row("SegFormer", PACKAGE, image(
        "SegformerModel", hidden_sizes=[8, 16, 24, 32], depths=[1, 1, 1, 1])),
    Row("CLIP", PACKAGE, clip),
    Row("Whisper", PACKAGE, whisper),
    Row("Whisper generates", PACKAGE, whisper_generates),
    Row("Wav2Vec2", PACKAGE, wav2vec2),
]  # fmt: skip
