"""Tiny random models of every composite family as transformers saves them: weights, tokenizer, processors, chat
template in the manner of the family's own. make(NAME, DIR) writes one and returns its row of FAMILIES."""
import os
import sys

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers as T
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

TEXTS = ["what is in this picture", "a red square and a blue circle", "how does it sound", "describe the second one",
         "it is a low tone that rises", "the camera moves from left to right", "You are a helpful assistant. user model"]
EVEN = {"rope_type": "default", "rope_theta": 10000.0}


# --- chat templates, in the manner of those that the families bring

def parts(image, video="", audio="", text="{{ c['text'] }}"):
    return ("{% for c in m['content'] %}{% if c['type'] == 'image' or 'image' in c %}" + image +
            "{% elif c['type'] == 'video' or 'video' in c %}" + video + "{% elif c['type'] == 'audio' or 'audio' in c %}" + audio +
            "{% elif 'text' in c %}" + text + "{% endif %}{% endfor %}")


def media_first(image, video="", lead="", tail=""):
    pick = "{%% for c in m['content'] | selectattr('type', 'equalto', '%s') %%}"
    return (pick % "image" + "{{ '" + image + "' }}{% endfor %}" + pick % "video" + "{{ '" + video + "' }}{% endfor %}" +
            pick % "text" + "{{ '" + lead + "' + c['text'] + '" + tail + "' }}{% endfor %}")


def loop(body):
    return "{% for m in messages %}" + body + "{% endfor %}"


def chatml(body, system=""):
    first = ("{% if loop.first and m['role'] != 'system' %}<|im_start|>system\n" + system + "<|im_end|>\n{% endif %}") if system else ""
    return loop(first + "<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}<|im_end|>\n{% else %}" +
                body + "<|im_end|>\n{% endif %}") + "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"


QWEN = parts("<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|video_pad|><|vision_end|>")
TEMPLATES = {
    "vicuna": loop("{% if m['role'] != 'system' %}{{ m['role'].upper() + ': ' }}{% endif %}" +
                   media_first("<image>\\n", tail=" ")) +
              "{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}",
    "onevision": loop("{{ '<|im_start|>' + m['role'] + ' ' }}" + media_first("<image>", "<video>", lead="\\n") + "{{ '<|im_end|>' }}"),
    "inst": loop("{% if m['role'] == 'user' %}{{ '[INST] ' }}" + media_first("<image>\\n") + "{{ ' [/INST]' }}"
                 "{% elif m['role'] == 'assistant' %}{{ ' ' + m['content'][0]['text'] + eos_token + ' ' }}{% endif %}"),
    "qwen2": chatml(QWEN, "You are a helpful assistant."),
    "qwen3": chatml(QWEN),
    "audio": "{% set n = namespace(value=0) %}" + chatml(parts(
        "", "", "{% set n.value = n.value + 1 %}Audio {{ n.value }}: <|audio_bos|><|AUDIO|><|audio_eos|>\n"), "You are a helpful assistant."),
    "gemma": "{{ bos_token }}" + loop("{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' }}"
             "{% for c in m['content'] %}{% if c['type'] == 'image' %}{{ '<start_of_image>' }}{% elif c['type'] == 'text' %}"
             "{{ c['text'] | trim }}{% endif %}{% endfor %}{{ '<end_of_turn>\n' }}"),
    "gemma4": "{{ bos_token }}" + loop("{{ '<|turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' }}"
              "{% for c in m['content'] %}{% if c['type'] == 'image' %}{{ '<|image|>' }}{% elif c['type'] == 'video' %}{{ '<|video|>' }}"
              "{% elif c['type'] == 'text' %}{{ c['text'] | trim }}{% endif %}{% endfor %}{{ '<turn|>\n' }}"),
    "mistral": "{{ bos_token }}" + loop("{% if m['role'] == 'user' %}{{ '[INST]' }}{% for c in m['content'] %}{% if c['type'] == 'text' %}"
               "{{ c['text'] }}{% else %}{{ '[IMG]' }}{% endif %}{% endfor %}{{ '[/INST]' }}{% elif m['role'] == 'assistant' %}"
               "{{ m['content'][0]['text'] + eos_token }}{% endif %}"),
    "internvl": chatml(parts("{{ '<IMG_CONTEXT>\n' }}", "{{ '<video>\n' }}")),
    "smolvlm": "<|im_start|>" + loop("{{ m['role'] | capitalize }}{% if m['content'][0]['type'] == 'image' %}{{ ':' }}{% else %}{{ ': ' }}"
               "{% endif %}{% for c in m['content'] %}{% if c['type'] == 'text' %}{{ c['text'] }}{% elif c['type'] == 'image' %}{{ '<image>' }}"
               "{% elif c['type'] == 'video' %}{{ '<video>' }}{% endif %}{% endfor %}<end_of_utterance>\n"),
    "voxtral": "{{ bos_token }}" + loop("{% if m['role'] == 'user' %}{{ '[INST]' }}{% for c in m['content'] %}{% if c['type'] == 'text' %}"
               "{{ c['text'] }}{% else %}{{ '[BEGIN_AUDIO][AUDIO]' }}{% endif %}{% endfor %}{{ '[/INST]' }}{% elif m['role'] == 'assistant' %}"
               "{{ m['content'][0]['text'] + eos_token }}{% endif %}"),
}


def tokenizer(special, bos=None, eos=None, template=None, **named):
    """Byte-level BPE of a few words; special tokens behind it; named: extra tokens of the tokenizer's attributes."""
    t = Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(TEXTS, trainers.BpeTrainer(vocab_size=300, show_progress=False,
                                                     initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    out = T.PreTrainedTokenizerFast(tokenizer_object=t, bos_token=bos, eos_token=eos, pad_token="<pad>", extra_special_tokens=named)
    out.add_special_tokens({"additional_special_tokens": [s for s in special if s not in (bos, eos)]})
    out.chat_template = template
    return out


def llm(t, **more):
    return {"vocab_size": (len(t) + 15) // 16 * 16, "hidden_size": 48, "intermediate_size": 80, "num_hidden_layers": 3,
            "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "initializer_range": 0.2,
            "bos_token_id": t.bos_token_id, "eos_token_id": t.eos_token_id, "pad_token_id": t.pad_token_id} | more


VIT = {"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "image_size": 28,
       "patch_size": 7, "initializer_range": 0.2}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


def llava():
    t = tokenizer(["<image>"], "<s>", "</s>", TEMPLATES["vicuna"])
    text = llm(t, model_type="llama")
    config = T.LlavaConfig(text_config=text, vision_config=dict(VIT, model_type="clip_vision_model"), image_token_index=t.convert_tokens_to_ids("<image>"))
    pictures = T.CLIPImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28})
    return config, T.LlavaProcessor(image_processor=pictures, tokenizer=t, patch_size=7, vision_feature_select_strategy="default",
                                    num_additional_image_tokens=1, chat_template=t.chat_template)


def llava_next():
    t = tokenizer(["<image>"], "<s>", "</s>", TEMPLATES["inst"])
    grid = [[28, 28], [28, 56], [56, 28], [56, 56], [84, 28], [28, 84]]
    config = T.LlavaNextConfig(text_config=llm(t, model_type="mistral", sliding_window=None), image_grid_pinpoints=grid,
                               vision_config=dict(VIT, model_type="clip_vision_model"), image_token_index=t.convert_tokens_to_ids("<image>"))
    pictures = T.LlavaNextImageProcessor(size={"shortest_edge": 28}, crop_size={"height": 28, "width": 28}, image_grid_pinpoints=grid)
    return config, T.LlavaNextProcessor(image_processor=pictures, tokenizer=t, patch_size=7, vision_feature_select_strategy="default",
                                        num_additional_image_tokens=1, chat_template=t.chat_template)


def onevision():
    t = tokenizer(["<|im_start|>", "<image>", "<video>"], None, "<|im_end|>", TEMPLATES["onevision"], image_token="<image>", video_token="<video>")
    grid = [[28, 28], [28, 56], [56, 28], [56, 56], [28, 84], [84, 28]]
    config = T.LlavaOnevisionConfig(
        text_config=llm(t, model_type="qwen2"), vision_config=dict(VIT, model_type="siglip_vision_model", vision_use_head=False),
        image_token_index=t.convert_tokens_to_ids("<image>"), video_token_index=t.convert_tokens_to_ids("<video>"), image_grid_pinpoints=grid)
    side = {"height": 28, "width": 28}
    return config, T.LlavaOnevisionProcessor(
        image_processor=T.LlavaOnevisionImageProcessor(size=side, image_grid_pinpoints=grid, **HALF), tokenizer=t,
        video_processor=T.LlavaOnevisionVideoProcessor(size=side, **HALF), num_image_tokens=16, vision_feature_select_strategy="full",
        chat_template=t.chat_template)


def qwen(config_class, processor_class, video_class, text, vision, template, patch=4):
    t = tokenizer(["<|im_start|>", "<|endoftext|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"], None, "<|im_end|>",
                  TEMPLATES[template])
    ids = {k: t.convert_tokens_to_ids(v) for k, v in {"image_token_id": "<|image_pad|>", "video_token_id": "<|video_pad|>",
           "vision_start_token_id": "<|vision_start|>", "vision_end_token_id": "<|vision_end|>"}.items()}
    tower = {"depth": 3, "hidden_size": 48, "intermediate_size": 96, "num_heads": 4, "out_hidden_size": 48, "patch_size": patch,
             "spatial_merge_size": 2, "temporal_patch_size": 2, "in_channels": 3, "initializer_range": 0.2} | vision
    config = config_class(text_config=llm(t, **text), vision_config=tower, tie_word_embeddings=False, **ids)
    sizes = {"size": {"shortest_edge": 8 * 8 * 2, "longest_edge": 8 * 8 * 12}, "patch_size": patch} | HALF
    frames = sizes | {"size": {"shortest_edge": 8 * 8 * 2, "longest_edge": 8 * 8 * 20}}
    if video_class is T.Qwen2VLVideoProcessor:
        frames |= {"do_sample_frames": True, "fps": 2, "max_frames": 8, "min_frames": 4}
    else:
        frames |= {"max_frames": 8}
    return config, processor_class(image_processor=T.Qwen2VLImageProcessor(**sizes), tokenizer=t, video_processor=video_class(**frames),
                                   chat_template=t.chat_template)


MROPE = {"rope_parameters": EVEN | {"mrope_section": [2, 2, 2]}}
INTERLEAVED = {"head_dim": 24, "rope_parameters": EVEN | {"mrope_section": [6, 3, 3], "mrope_interleaved": True}}
RECURRENT = {"num_hidden_layers": 4, "head_dim": 24, "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 12,
             "linear_num_key_heads": 2, "linear_num_value_heads": 4,
             "rope_parameters": EVEN | {"mrope_section": [1, 1, 1], "mrope_interleaved": True, "partial_rotary_factor": 0.25}}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 40}
DEEP = {"num_position_embeddings": 25, "deepstack_visual_indexes": [0, 2]}


def gemma3():
    t = tokenizer(["<start_of_turn>", "<end_of_turn>", "<image_soft_token>", "<start_of_image>", "<end_of_image>"], "<bos>", "<eos>", TEMPLATES["gemma"],
                  boi_token="<start_of_image>", eoi_token="<end_of_image>", image_token="<image_soft_token>")
    at = t.convert_tokens_to_ids
    config = T.Gemma3Config(
        text_config=llm(t, head_dim=24, sliding_window=8, query_pre_attn_scalar=20, num_hidden_layers=6),
        vision_config=dict(VIT, model_type="siglip_vision_model", vision_use_head=False), mm_tokens_per_image=4,
        image_token_index=at("<image_soft_token>"), boi_token_index=at("<start_of_image>"), eoi_token_index=at("<end_of_image>"))
    return config, T.Gemma3Processor(image_processor=T.Gemma3ImageProcessor(size={"height": 28, "width": 28}), tokenizer=t, image_seq_length=4,
                                     chat_template=t.chat_template)


def gemma4():
    names = {"boi_token": "<|image>", "eoi_token": "<image|>", "image_token": "<|image|>", "audio_token": "<|audio|>", "boa_token": "<|audio>",
             "eoa_token": "<audio|>"}
    t = tokenizer(["<|turn>", "<turn|>", "<|video|>", *names.values()], "<bos>", "<eos>", TEMPLATES["gemma4"], **names)
    at = t.convert_tokens_to_ids
    text = llm(t, head_dim=24, global_head_dim=48, num_global_key_value_heads=1, sliding_window=8, num_hidden_layers=6, attention_k_eq_v=True,
               hidden_size_per_layer_input=0, num_kv_shared_layers=0, tie_word_embeddings=True, final_logit_softcapping=30.0,
               use_bidirectional_attention="vision")
    config = T.Gemma4Config(
        text_config=text, audio_config=None, tie_word_embeddings=True, audio_token_id=None,
        vision_config={"hidden_size": 48, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 4,
                       "head_dim": 16, "pooling_kernel_size": 2, "patch_size": 4, "position_embedding_size": 64, "initializer_range": 0.2,
                       "standardize": True},
        image_token_id=at("<|image|>"), video_token_id=at("<|video|>"), boi_token_id=at("<|image>"), eoi_token_id=at("<image|>"))
    from transformers.models.gemma4.video_processing_gemma4 import Gemma4VideoProcessor
    return config, T.Gemma4Processor(
        feature_extractor=T.Gemma4AudioFeatureExtractor(), image_processor=T.Gemma4ImageProcessor(patch_size=4, pooling_kernel_size=2, max_soft_tokens=70), tokenizer=t,
        video_processor=Gemma4VideoProcessor(patch_size=4, pooling_kernel_size=2, max_soft_tokens=70, num_frames=3), chat_template=t.chat_template)


def mistral3():
    t = tokenizer(["[INST]", "[/INST]", "[IMG]", "[IMG_BREAK]", "[IMG_END]"], "<s>", "</s>", TEMPLATES["mistral"])
    config = T.Mistral3Config(
        text_config=llm(t, model_type="mistral", head_dim=20, sliding_window=None), spatial_merge_size=2, vision_feature_layer=-1,
        vision_config=dict(VIT, model_type="pixtral", image_size=56), image_token_index=t.convert_tokens_to_ids("[IMG]"), multimodal_projector_bias=False)
    pictures = T.PixtralImageProcessor(size={"longest_edge": 56}, patch_size={"height": 7, "width": 7})
    return config, T.PixtralProcessor(image_processor=pictures, tokenizer=t, patch_size=7, spatial_merge_size=2, chat_template=t.chat_template)


def internvl():
    names = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}
    t = tokenizer(["<|im_start|>", *names.values()], None, "<|im_end|>", TEMPLATES["internvl"], **names)
    config = T.InternVLConfig(
        text_config=llm(t, model_type="qwen2"), image_token_id=t.convert_tokens_to_ids("<IMG_CONTEXT>"), image_seq_length=4, downsample_ratio=0.5,
        vision_config=dict(VIT, image_size=[28, 28], patch_size=[7, 7], attention_bias=True, use_qk_norm=False, norm_type="layer_norm",
                           layer_scale_init_value=0.7))
    side = {"height": 28, "width": 28}
    return config, T.InternVLProcessor(
        image_processor=T.GotOcr2ImageProcessor(size=side, crop_to_patches=True, min_patches=1, max_patches=6, **IMAGENET), tokenizer=t,
        video_processor=T.InternVLVideoProcessor(size=side, num_frames=4, do_sample_frames=True, **IMAGENET), image_seq_length=4, chat_template=t.chat_template)


def smolvlm():
    names = {"fake_image_token": "<fake_token_around_image>", "global_image_token": "<global-img>", "image_token": "<image>",
             "video_token": "<video>", "end_of_utterance_token": "<end_of_utterance>"}
    cells = [f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)]
    t = tokenizer([*names.values(), *cells], "<|im_start|>", "<|im_end|>", TEMPLATES["smolvlm"], **names)
    config = T.SmolVLMConfig(text_config=llm(t, model_type="llama"), vision_config=dict(VIT), image_token_id=t.convert_tokens_to_ids("<image>"),
                             scale_factor=2, pad_token_id=t.pad_token_id)
    return config, T.SmolVLMProcessor(
        image_processor=T.SmolVLMImageProcessor(size={"longest_edge": 84}, max_image_size={"longest_edge": 28}), tokenizer=t,
        video_processor=T.SmolVLMVideoProcessor(size={"longest_edge": 84}, max_image_size={"longest_edge": 28}, do_sample_frames=True,
                                                video_sampling={"fps": 1, "max_frames": 4, "video_size": {"longest_edge": 84}}),
        image_seq_len=4, chat_template=t.chat_template)


MELS = {"num_mel_bins": 80, "max_source_positions": 100, "initializer_range": 0.2}


def qwen2_audio():
    t = tokenizer(["<|im_start|>", "<|AUDIO|>", "<|audio_bos|>", "<|audio_eos|>"], None, "<|im_end|>", TEMPLATES["audio"])
    config = T.Qwen2AudioConfig(
        audio_config=dict(MELS, d_model=48, encoder_layers=3, encoder_attention_heads=4, encoder_ffn_dim=96, init_std=0.2),
        text_config=llm(t, model_type="qwen2"), audio_token_index=t.convert_tokens_to_ids("<|AUDIO|>"))
    return config, T.Qwen2AudioProcessor(feature_extractor=T.WhisperFeatureExtractor(feature_size=80, chunk_length=2), tokenizer=t,
                                         chat_template=t.chat_template)


def voxtral():
    t = tokenizer(["[INST]", "[/INST]", "[AUDIO]", "[BEGIN_AUDIO]"], "<s>", "</s>", TEMPLATES["voxtral"])
    config = T.VoxtralConfig(
        audio_config=dict(MELS, hidden_size=48, intermediate_size=192, num_hidden_layers=3, num_attention_heads=4),
        text_config=llm(t, model_type="llama"), audio_token_id=t.convert_tokens_to_ids("[AUDIO]"))
    return config, T.VoxtralProcessor(feature_extractor=T.WhisperFeatureExtractor(feature_size=80, chunk_length=2), tokenizer=t)


Q = "ForConditionalGeneration"
# name: class of the model, what makes configuration and processor, kinds of media, keys of the script's `video`
FAMILIES = {
    "llava": ("Llava" + Q, llava, "i", None),
    "llava_next": ("LlavaNext" + Q, llava_next, "i", None),
    "llava_onevision": ("LlavaOnevision" + Q, onevision, "iv", "{ num_frames = 3 }"),
    "qwen2_vl": ("Qwen2VL" + Q, lambda: qwen(T.Qwen2VLConfig, T.Qwen2VLProcessor, T.Qwen2VLVideoProcessor, MROPE, {"embed_dim": 48, "mlp_ratio": 2},
                                             "qwen2"), "iv", "{}"),
    "qwen2_5_vl": ("Qwen2_5_VL" + Q, lambda: qwen(T.Qwen2_5_VLConfig, T.Qwen2_5_VLProcessor, T.Qwen2VLVideoProcessor, MROPE,
                                                  {"window_size": 16, "fullatt_block_indexes": [2]}, "qwen2"), "iv", "{}"),
    "qwen3_vl": ("Qwen3VL" + Q, lambda: qwen(T.Qwen3VLConfig, T.Qwen3VLProcessor, T.Qwen3VLVideoProcessor, INTERLEAVED, DEEP, "qwen3"), "iv", "{}"),
    "qwen3_vl_moe": ("Qwen3VLMoe" + Q, lambda: qwen(T.Qwen3VLMoeConfig, T.Qwen3VLProcessor, T.Qwen3VLVideoProcessor, INTERLEAVED | EXPERTS, DEEP,
                                                    "qwen3"), "iv", "{}"),
    "qwen3_5": ("Qwen3_5" + Q, lambda: qwen(T.Qwen3_5Config, T.Qwen3VLProcessor, T.Qwen3VLVideoProcessor, RECURRENT, {"num_position_embeddings": 25},
                                            "qwen3"), "iv", "{}"),
    "gemma3": ("Gemma3" + Q, gemma3, "i", None),
    "gemma4": ("Gemma4" + Q, gemma4, "iv", "{}"),
    "mistral3": ("Mistral3" + Q, mistral3, "i", None),
    "internvl": ("InternVL" + Q, internvl, "iv", "{}"),
    "smolvlm": ("SmolVLM" + Q, smolvlm, "iv", "{}"),
    "qwen2_audio": ("Qwen2Audio" + Q, qwen2_audio, "a", None),
    "voxtral": ("Voxtral" + Q, voxtral, "a", None),
}


def make(name, folder, seed=0):
    torch.manual_seed(seed)
    model_class, build, _, _ = FAMILIES[name]
    config, processor = build()
    config._attn_implementation = "eager"
    model = getattr(T, model_class)._from_config(config, attn_implementation="eager").float()
    for _, p in model.named_parameters():
        if p.dim() == 1:
            p.data += 0.1 * torch.randn_like(p)
    for n, b in model.named_buffers():
        if n.endswith(("std_bias", "std_scale")):
            b.data = 1 + 0.1 * torch.randn_like(b)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return FAMILIES[name]


def main(out, *names):
    for name in names:
        folder = f"{out}/{name}"
        config, processor = FAMILIES[name][1]()
        config.architectures = [FAMILIES[name][0]]
        config.save_pretrained(folder)
        processor.save_pretrained(folder)
        for file in os.listdir(folder):
            if file.startswith("tokenizer"):
                os.remove(f"{folder}/{file}")


if __name__ == "__main__":
    main(*sys.argv[1:])
