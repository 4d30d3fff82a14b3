"""tiny_qwen3_vl.py LLM DIR: a directory in the form of Qwen3-VL's, without weights: configuration of a small
model, the picture processor's document, the tokenizer of the directory LLM with Qwen's tokens beside its own."""
import json
import os
import sys

MARKS = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
TEXT = {
    "model_type": "qwen3_vl_text", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "max_position_embeddings": 1024,
    "rms_norm_eps": 1e-6, "initializer_range": 0.1, "hidden_act": "silu",
    "rope_parameters": ROPE | {"mrope_section": [4, 2, 2], "mrope_interleaved": True},
}
VISION = {
    "model_type": "qwen3_vl_vision", "depth": 2, "hidden_size": 48, "intermediate_size": 96, "num_heads": 4,
    "out_hidden_size": 64, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2, "in_channels": 3,
    "num_position_embeddings": 64, "deepstack_visual_indexes": [0], "initializer_range": 0.1,
    "hidden_act": "gelu_pytorch_tanh",
}
PICTURES = {
    "image_processor_type": "Qwen2VLImageProcessorFast", "patch_size": 4, "temporal_patch_size": 2, "merge_size": 2,
    "size": {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
}


def write(folder, name, document):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
        json.dump(document, f, indent=1)


def main(llm, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(llm, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    first = max(t["id"] for t in tokenizer["added_tokens"]) + 1
    like = tokenizer["added_tokens"][0]
    tokenizer["added_tokens"] += [like | {"id": first + i, "content": mark} for i, mark in enumerate(MARKS)]
    with open(os.path.join(llm, "tokenizer_config.json"), encoding="utf-8") as f:
        write(folder, "tokenizer_config.json", json.load(f))
    write(folder, "tokenizer.json", tokenizer)
    write(folder, "preprocessor_config.json", PICTURES)
    ids = dict(zip(MARKS, range(first, first + len(MARKS))))
    write(folder, "config.json", {
        "model_type": "qwen3_vl", "architectures": ["Qwen3VLForConditionalGeneration"], "tie_word_embeddings": False,
        "image_token_id": ids["<|image_pad|>"], "video_token_id": ids["<|video_pad|>"],
        "vision_start_token_id": ids["<|vision_start|>"], "vision_end_token_id": ids["<|vision_end|>"],
        "text_config": TEXT | {"vocab_size": first + len(MARKS)}, "vision_config": VISION,
    })


main(*sys.argv[1:])
