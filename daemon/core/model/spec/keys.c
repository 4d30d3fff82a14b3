/* Holds the key table of the job specification, in the order of the manual page. */
#include <stddef.h>

#include "core/model/placements.h"
#include "core/model/schedules.h"
#include "core/model/spec/read.h"

enum { MAX_TEXT = 4096, MAX_NAME = 200 };

#define MAX_INT  9007199254740992.0 /* 2^53: exact in JSON and Lua alike */
#define R(f)     offsetof(struct cs_spec, f)
#define M(f)     offsetof(struct cs_spec_module, f)
#define I(f)     offsetof(struct cs_spec_items, f)
#define D(f)     offsetof(struct cs_spec_data, f)
#define RULE(f)  offsetof(struct cs_spec_rule, f)
#define ADAPT(f) offsetof(struct cs_spec_adapter, f)
#define GRP(f)   offsetof(struct cs_spec_group, f)
#define PAR(f)   offsetof(struct cs_spec_parallel, f)
/* First what a row is of: LAYOUT(KIND, ...) rows say how the job lies on its ranks, which may change
 * when it is resumed, LABEL(KIND, ...) rows are for people; all others say what is trained. */
#define KEY_OF(side_, g, k, t, lo, hi, acc, dflt, knd, fld, st, text)                              \
    {                                                                                              \
        .group = g, .key = k, .type = CS_SPEC_##t, .min = lo, .max = hi, .accept = acc,            \
        .fallback = dflt, .kind = knd, .side = CS_SPEC_##side_, .field = fld,                      \
        .store = CS_STORE_##st, .help = text                                                       \
    }
#define GROUP_OF(side_, g, k, dflt, text)                                                          \
    KEY_OF(side_, g, k, GROUP, 0, 0, NULL, dflt, NULL, 0, NONE, text)
#define INT32_OF(side_, g, k, lo, hi, dflt, fld, text)                                             \
    KEY_OF(side_, g, k, INT, lo, hi, NULL, dflt, NULL, fld, I32, text)
#define INT64_OF(side_, g, k, lo, hi, dflt, fld, text)                                             \
    KEY_OF(side_, g, k, INT, lo, hi, NULL, dflt, NULL, fld, I64, text)
#define NUMBER_OF(side_, g, k, lo, hi, dflt, fld, text)                                            \
    KEY_OF(side_, g, k, NUMBER, lo, hi, NULL, dflt, NULL, fld, F64, text)
#define WORD_OF(side_, g, k, acc, dflt, fld, text)                                                 \
    KEY_OF(side_, g, k, STRING, 0, MAX_TEXT, acc, dflt, NULL, fld, STRING, text)
#define TEXT_OF(side_, g, k, hi, dflt, fld, text)                                                  \
    KEY_OF(side_, g, k, STRING, 0, hi, NULL, dflt, NULL, fld, STRING, text)
#define PATH_OF(side_, g, k, dflt, fld, text)                                                      \
    KEY_OF(side_, g, k, PATH, 0, MAX_TEXT, NULL, dflt, NULL, fld, STRING, text)
#define FREE_OF(side_, g, k, dflt, fld, text)                                                      \
    KEY_OF(side_, g, k, FREE, 0, 0, NULL, dflt, NULL, fld, JSON, text)

#define LAYOUT(kind, ...) kind##_OF(LAYOUT_SIDE, __VA_ARGS__)
#define LABEL(kind, ...)  kind##_OF(LABEL_SIDE, __VA_ARGS__)
#define KEY(...)          KEY_OF(TRAINED_SIDE, __VA_ARGS__)
#define GROUP(...)        GROUP_OF(TRAINED_SIDE, __VA_ARGS__)
#define INT32(...)        INT32_OF(TRAINED_SIDE, __VA_ARGS__)
#define INT64(...)        INT64_OF(TRAINED_SIDE, __VA_ARGS__)
#define NUMBER(...)       NUMBER_OF(TRAINED_SIDE, __VA_ARGS__)
#define WORD(...)         WORD_OF(TRAINED_SIDE, __VA_ARGS__)
#define TEXT(...)         TEXT_OF(TRAINED_SIDE, __VA_ARGS__)
#define PATH(...)         PATH_OF(TRAINED_SIDE, __VA_ARGS__)
#define FREE(...)         FREE_OF(TRAINED_SIDE, __VA_ARGS__)

/* clang-format off */
static const struct cs_spec_key keys[] = {
    WORD("", "schema", "cornstarch.job/1", "cornstarch.job/1", CS_NO_FIELD, "the version of this document"),
    LABEL(TEXT, "", "name", MAX_NAME, "job", R(name), "what people call the job"),
    INT64("", "seed", 0, MAX_INT, "0", R(seed), "of fresh parameters and of the order of samples"),
    INT64("", "steps", 1, 1e12, NULL, R(steps), "optimizer steps"),
    INT64("", "batch_samples", 1, CS_SPEC_MAX_BATCH, NULL, R(batch_samples), "samples of one step, over all ranks; plan and submit refuse more than its 4096 slots hold, or than twice as many fit the memory of this machine"),
    LAYOUT(WORD, "", "balance", "list2d|lpt|entrain|random|stream", "list2d", R(balance), "which slot of its step a sample sits in, never which samples a step holds; stream: as they come"),
    LAYOUT(WORD, "", "slot_order", "kept|searched", "kept", R(slot_order), "of the slots of a step; searched: on the simulator, then layouts agree within rounding only"),
    LAYOUT(INT32, "", "data_threads", 0, CS_SPEC_MAX_DATA_THREADS, "0", R(data_threads), "threads that read samples, decode and resize their pictures ahead of training; what they make does not depend on their number; 0: with GPUs as many as the cores leave beside the ranks, 2 to 32, beside CPU ranks 2"),
    WORD("", "precision", "bf16|fp32", "", R(precision), "what GPUs compute in, by default bf16 with fp32 masters; CPU ranks compute in fp32"),
    GROUP("", "model", NULL, "modules and what trains"),
    GROUP("", "plan", NULL, "how the modules are laid out"),
    LAYOUT(TEXT, "", "plan_hash", 64, "", R(plan_hash), "of the plan that was previewed; empty: none"),
    GROUP("", "data", NULL, "what to train on"),
    GROUP("", "eval", "null", "what to evaluate on, and when"),
    GROUP("", "optimizer", NULL, "AdamW and the peak of the learning rate"),
    GROUP("", "lr", "{}", "the learning rate over the steps"),
    GROUP("", "checkpoint", "{}", "when and where parameters are written"),
    LABEL(PATH, "", "tensorboard", "", CS_NO_FIELD, "directory for event files of TensorBoard, of this job alone, written while it runs; empty: none"),
    LABEL(GROUP, "", "alerts", "{}", "what raises an alarm: a threshold for each rule, false: off"),

    GROUP("model", "modules", NULL, "list: X.encoder and X.projector for every encoder, and llm"),
    GROUP("model", "rules", "[]", "list: what trains; the last rule that matches a layer holds, none: frozen"),
    GROUP("model", "adapters", "[]", "list: LoRA beside frozen matrices; of several that match a matrix the last one holds"),

    TEXT("model.modules[]", "name", 64, NULL, M(name), "X.encoder, X.projector or llm"),
    WORD("model.modules[]", "kind", "encoder|projector|llm", NULL, CS_NO_FIELD, "what the module is"),
    PATH("model.modules[]", "dir", "", M(dir), "Hugging Face directory; empty: none"),
    FREE("model.modules[]", "config", "null", M(config), "config.json of the directory, as it is. output_router_logits true: router_aux_loss_coef times the loss of the experts' balance is trained too, of all layers together and for every slot by itself; reported losses are without it: it is their aux_loss"),
    WORD("model.modules[]", "init", "weights|random", "", M(init), "where parameters come from; default: weights where dir is set, else random"),
    KEY("model.modules[]", "token", STRING, 1, 256, NULL, NULL, "encoder", M(token), STRING, "the placeholder in the text"),
    KEY("model.modules[]", "key", STRING, 0, 40, NULL, "", "encoder", M(key), STRING, "the key of a sample that holds its files, also with an s; empty: image where it is the only encoder, else the word of its token, or its name"),
    KEY("model.modules[]", "processor", FREE, 0, 0, NULL, "null", "encoder", M(processor), JSON, "preprocessor_config.json of the directory"),
    KEY("model.modules[]", "video", FREE, 0, 0, NULL, "null", "encoder", M(video), JSON, "what is done to videos, as in video_preprocessor_config.json of the directory; null: the encoder reads pictures only"),
    KEY("model.modules[]", "items", GROUP, 0, 0, NULL, "null", "encoder", 0, NONE, "what the processor makes of a file at most; null: one picture of the encoder's size"),
    KEY("model.modules[]", "feature_layer", INT, -4096, 4096, NULL, "null", "encoder", M(feature_layer), FEATURE, "hidden state that feeds the projector, as in LLaVA: -1 after the last block, -2 ...; null: after the final norm"),
    KEY("model.modules[]", "layers", INT, 1, 3, NULL, "0", "projector", M(n_layers), I32, "linear layers; default: as many as the family has"),
    KEY("model.modules[]", "group", INT, 1, 4096, NULL, "1", "projector", M(group), I32, "rows of the encoder that become one, pictures: a square of patches"),
    KEY("model.modules[]", "norm_eps", NUMBER, 0, 1, NULL, "0", "projector", M(norm_eps), F64, "of its norm; 0: that of the family"),
    KEY("model.modules[]", "keeps_class", BOOL, 0, 1, NULL, "false", "projector", M(keeps_class), BOOL, "whether the class row of the encoder is a row like others"),
    KEY("model.modules[]", "newline", BOOL, 0, 1, NULL, "false", "projector", M(has_newline), BOOL, "whether it has a learned row, which ends the lines of a picture (LLaVA-NeXT)"),
    KEY("model.modules[]", "activation", STRING, 0, 64, "gelu|gelu_pytorch_tanh|gelu_new|quick_gelu|silu|swish|relu", "gelu", "projector", M(activation), STRING, "between the linear layers"),
    KEY("model.modules[]", "bias", BOOL, 0, 1, NULL, "true", "projector", M(has_bias), BOOL, "whether the linear layers have one"),
    KEY("model.modules[]", "family", STRING, 0, 64, "mlp|linear|qwen2_vl_merger|qwen2_5_vl_merger|qwen3_vl_merger|internvl_projector|mistral3_projector|gemma3_projector|gemma4_projector|smolvlm_connector|voxtral_projector", "mlp", "projector", M(family), STRING, "shape of the projector"),
    KEY("model.modules[]", "tokenizer", PATH, 0, MAX_TEXT, NULL, "", "llm", M(tokenizer), STRING, "directory of the tokenizer; empty: dir"),
    KEY("model.modules[]", "mask", STRING, 0, 64, "causal|packed|cornstarch|image_bidir|modality_bidir|item|window|prefix|image_bidir_window|image_window", "causal", "llm", M(mask), STRING, "who attends to whom; in transformers LLaVA is causal, Gemma 3 image_bidir, Gemma 4 image_window; a model whose layers have windows of their own keeps them and takes these three"),
    KEY("model.modules[]", "window", INT, 0, 16777216, NULL, "0", "llm", M(window), I32, "tokens that one sees, itself included; mask window"),
    KEY("model.modules[]", "prefix", INT, 0, 16777216, NULL, "0", "llm", M(prefix), I32, "first tokens of a document that see each other both ways; mask prefix"),

    INT32("model.modules[].items", "rows", 1, 16777216, NULL, I(rows), "of the largest item: rows that leave the encoder; what a slot cannot hold is left out by itself"),
    INT32("model.modules[].items", "patches", 1, 16777216, NULL, I(patches), "of the largest item: rows that the encoder's blocks work on"),
    INT32("model.modules[].items", "bytes", 1, 2147483647, NULL, I(bytes), "of the largest item: of its pixels or frames"),
    INT32("model.modules[].items", "of_file", 1, 65536, "1", I(of_file), "items that a file becomes at most"),
    KEY("model.modules[].items", "sources", BOOL, 0, 1, NULL, "false", NULL, I(has_sources), BOOL, "rows of items are dropped, reordered or mixed, or a learned row is put between"),

    KEY("model.rules[]", "op", STRING, 0, MAX_TEXT, "train|freeze", NULL, NULL, RULE(is_train), BOOL, "what happens to the layers"),
    TEXT("model.rules[]", "glob", 256, NULL, RULE(glob), "which layers: vision.projector, llm.layers.0-3, *; with a slash which parameters: llm/*.layers.3.*norm.weight"),

    TEXT("model.adapters[]", "module", 64, NULL, ADAPT(module), "X.encoder, X.projector or llm"),
    TEXT("model.adapters[]", "targets", 1 << 20, "all-linear", ADAPT(targets), "which matrices: q_proj|v_proj are the last parts of their names, as in PEFT; or globs of whole names; all-linear: every matrix of a block"),
    INT32("model.adapters[]", "rank", 1, 4096, NULL, ADAPT(rank), "columns between the two factors"),
    NUMBER("model.adapters[]", "alpha", 0, 1e6, "0", ADAPT(alpha), "what is added is scaled by alpha / rank; 0: by 1"),
    KEY("model.adapters[]", "rslora", BOOL, 0, 1, NULL, "false", NULL, ADAPT(is_rank_root), BOOL, "scaled by alpha / sqrt(rank) instead"),
    PATH("model.adapters[]", "dir", "", ADAPT(dir), "directory of PEFT's with trained values; empty: fresh ones, that add nothing at first"),

    LAYOUT(KEY, "plan", "cluster", FREE, 0, 0, "here", "here", NULL, R(cluster), JSON, "\"here\", or an object that describes the ranks"),
    LAYOUT(WORD, "plan", "modality", CS_MODALITY_WORDS, CS_MODALITY_DEFAULT, R(modality), CS_MODALITY_HELP),
    LAYOUT(GROUP, "plan", "parallel", NULL, "per branch: how it is split"),
    LAYOUT(WORD, "plan", "schedule", CS_SCHEDULE_WORDS, CS_SCHEDULE_DEFAULT, R(schedule), "order of forwards and backwards"),
    INT32("plan", "seq_tokens", 1, 16777216, NULL, R(seq_tokens), "LLM rows of one slot"),
    LAYOUT(INT32, "plan", "slots", 1, CS_SPEC_MAX_SLOTS, "4", R(slots), "micro-batches in flight of one step"),
    LAYOUT(INT32, "plan", "dp", 1, CS_SPEC_MAX_DP, "1", R(dp), "data parallelism: replicas of the language model, and of encoders that say nothing else, each on ranks of its own; a step's slots are dealt out to them"),
    LAYOUT(WORD, "plan", "context", "lpt|best|exact|uniform|zigzag|striped|random", "lpt", R(context), "with cp: which rank has which rows of a slot; lpt: blocks by their work, the heaviest first"),
    LAYOUT(INT32, "plan", "context_rows", 0, 16777216, "0", R(context_rows), "with cp: rows that a rank takes of a slot before another one shares it, so that short slots stay on one rank and ranks work on different ones; 0: all ranks split every slot"),
    LAYOUT(WORD, "plan", "context_exchange", "auto|keys|heads", "auto", R(context_exchange), "with cp: what goes between ranks around attention; keys: keys and values that the rows of a rank see; heads: rows of all ranks for some heads on each, which must divide, so that attention is even however rows lie; auto: what takes less, as the plan says"),
    LAYOUT(WORD, "plan", "stripes", "auto|always|never", "auto", R(stripes), "with tp: rows between stages on different ranks are cut over the ranks that need them, which put them together over their own link; auto: where that is faster"),
    GROUP("plan", "encoder_rows", "{}", "per encoder: rows of one slot; absent: derived"),
    LAYOUT(WORD, "plan", "stages", "frozen-aware|frozen-blind|equal-layers", "frozen-aware", R(stages), "whether the split knows what is frozen, or counts layers alone"),
    LAYOUT(FREE, "plan", "profile", "null", R(profile), "measured costs that the plan is made from: what `cornstarch-console profile` wrote; null: a roofline of the device"),

    LAYOUT(INT32, "plan.parallel.*", "pp", 1, 1024, "1", PAR(pp), "pipeline stages of the branch"),
    LAYOUT(INT32, "plan.parallel.*", "vpp", 0, 64, "0", PAR(vpp), "virtual pipeline stages, of the LLM under schedule interleaved: chunks that each of its stages is cut into, at least 2; 0: 2 of them"),
    LAYOUT(WORD, "plan.parallel.*", "place", CS_PLACE_WORDS, CS_PLACE_DEFAULT, PAR(place), "where this encoder runs: as plan.modality says, or " CS_PLACE_HELP "; colocated with pp 1 beside more stages of the LLM, or under three-phase and anchors: a whole copy on each of its ranks, which share the slots"),
    LAYOUT(INT32, "plan.parallel.*", "tp", 1, 64, "1", PAR(tp), "tensor parallelism: ranks of every stage that share its matrices, by heads, by columns of the MLP and by words of the vocabulary"),
    LAYOUT(KEY, "plan.parallel.*", "sp", BOOL, 0, 1, NULL, "false", NULL, PAR(sp), BOOL, "sequence parallelism, with tp: between the products of a block each of its ranks has a part of the rows, so that norms and sums of rows are shared too, and less is kept for the backward"),
    LAYOUT(INT32, "plan.parallel.*", "cp", 1, 64, "1", PAR(cp), "context parallelism: ranks of every stage among which the rows of a slot are split; of an encoder: that share its items"),
    LAYOUT(INT32, "plan.parallel.*", "ep", 1, 64, "1", PAR(ep), "expert parallelism: of dp x cp ranks with the same rest of a stage so many neighbours have each a part of the experts of every layer; rows go to the experts that they choose and back; a divisor of dp x cp"),
    LAYOUT(INT32, "plan.parallel.*", "dp", 0, 1024, "0", PAR(dp), "replicas of an encoder, any number beside those of the language model: they share the items of slots that its replicas run at the same time; 0: as many as plan.dp"),
    LAYOUT(INT32, "plan.parallel.*", "zero", 1, 3, "1", PAR(zero), "what ranks with the same weights divide among them instead of each having all of it: 1 the optimizer's state, 2 gradients too, 3 weights too, which come before a layer needs them and go behind it (also those of frozen layers)"),
    LAYOUT(WORD, "plan.parallel.*", "recompute", "none|selective|full", "none", PAR(recompute), "activations that the backward makes again instead of keeping them: what norms and activation functions give, or all but the input of a layer"),
    LAYOUT(WORD, "plan.parallel.*", "offload", "none|host", "none", PAR(offload), "where activations are between a forward and its backward that is not the next work of their stage: with host in page-locked memory of the host, moved beside computing (GPUs)"),

    WORD("data", "format", "llava", "llava", D(format), "of the file"),
    PATH("data", "json", NULL, D(json), "the samples: JSON, Parquet, CSV or tar; a file, a folder or a pattern"),
    PATH("data", "images", "", D(images), "folder that pictures are relative to and must lie in; /: anywhere"),
    FREE("data", "mix", "[]", D(mix), "further sources, trained as one with the first: a list of {json, images, weight, name}"),
    NUMBER("data", "weight", 0, 1e9, "0", D(weight), "share of the first source in a mixture, beside the weights of mix; 0: samples of all sources are drawn alike"),
    TEXT("data", "name", 64, "", D(name), "channel of samples that name none"),
    FREE("data", "template", "null", D(template_), "chat template; without a name in it the tokenizer's own, where it has none chatml"),
    LABEL(PATH, "data", "cache_dir", "", D(cache_dir), "folder where decoded and resized media are kept for later epochs and other jobs; empty: nowhere"),
    LABEL(INT64, "data", "cache_bytes", CS_SPEC_CACHE_LEAST, CS_SPEC_CACHE_MOST, "10000000000", D(cache_bytes), "of all its files together; what was not read for longest goes"),
    WORD("data", "on_bad_sample", "skip|fail", "skip", D(on_bad_sample), "what a sample that cannot be read does"),
    NUMBER("data", "max_bad_fraction", 0, 1, "0.01", D(max_bad_fraction), "more bad samples than this end the job"),
    INT64("data", "max_picture_pixels", 1, CS_SPEC_PIXELS_MOST, "64000000", D(max_picture_pixels), "a picture or frame of more is a bad sample; every thread that decodes takes three bytes for each, twice that where pictures are turned"),
    KEY("data", "shuffle_images", BOOL, 0, 1, NULL, "false", NULL, D(shuffle_images), BOOL, "a control: pictures permuted between samples"),
    KEY("data", "follow_links", BOOL, 0, 1, NULL, "false", NULL, D(follows_links), BOOL, "symbolic links among the pictures may lead out of their folder"),

    GROUP("eval", "data", NULL, "as data"),
    INT64("eval", "every_steps", 0, 1e12, "0", R(eval_every), "0: only at the end"),
    WORD("eval", "metric", "exact_match|loss", "exact_match", R(eval_metric), "what is measured"),
    INT64("eval", "max_samples", 0, 1e12, "0", R(eval_max_samples), "0: all"),

    WORD("optimizer", "kind", "adamw", "adamw", CS_NO_FIELD, "the optimizer"),
    NUMBER("optimizer", "lr", 0, 1e3, NULL, R(lr), "peak learning rate"),
    KEY("optimizer", "betas", PAIR, 0, 0.9999999, NULL, "0.9 0.999", NULL, R(beta1), PAIR, "decay of the two moments"),
    NUMBER("optimizer", "eps", 0, 1, "1e-8", R(eps), "added to the root of the second moment"),
    NUMBER("optimizer", "weight_decay", 0, 1e3, "0", R(weight_decay), "decoupled; not on biases and norms"),
    NUMBER("optimizer", "clip", 0, 1e12, "1", R(clip), "largest norm of all gradients; 0: no clipping"),
    INT64("optimizer", "warmup_steps", 0, 1e12, "0", R(warmup_steps), "linear rise of the learning rate"),
    WORD("optimizer", "state", "fp32|bf16", "fp32", R(state), "what is kept of a trained parameter beside its weight in the precision of the job: an fp32 master, gradient and two moments (18 bytes with a bf16 weight), or gradient and moments in bf16 and no master (8 bytes); bf16 rounds stochastically and is for GPUs that compute in bf16"),

    GROUP("optimizer", "groups", "[]", "list: parameters with a learning rate or a decay of their own; of several that name a parameter the last one holds"),
    TEXT("optimizer.groups[]", "glob", 256, NULL, GRP(glob), "which parameters, by name or by the path of their layer: vision.projector, llm/*norm.weight; one of them trains at least"),
    NUMBER("optimizer.groups[]", "lr", -1, 1e3, "-1", GRP(lr), "peak learning rate; -1: the optimizer's"),
    NUMBER("optimizer.groups[]", "weight_decay", -1, 1e3, "-1", GRP(weight_decay), "of matrices; -1: the optimizer's"),

    WORD("lr", "kind", "constant|linear|cosine", "constant", R(lr_kind), "after the warm-up"),
    NUMBER("lr", "final_ratio", 0, 1, "0", R(lr_final_ratio), "where linear and cosine end, as a part of the peak"),

    INT64("checkpoint", "every_steps", 0, 1e12, "0", R(checkpoint_every), "0: only at the end"),
    INT64("checkpoint", "keep", 1, 1e6, "3", R(checkpoint_keep), "newest ones that are kept"),
    PATH("checkpoint", "dir", "", R(checkpoint_dir), "empty: in the job's directory"),

#define X(id, slug, threshold, least, most, text) \
    LABEL(KEY, "alerts", slug, LIMIT, least, most, NULL, #threshold, NULL, R(alert[CS_ALERT_##id]), F64, text),
    CS_ALERTS_MEASURED(X)
#undef X
};

/* clang-format on */

const struct cs_spec_key *cs_spec_keys(int *n)
{
    *n = (int)CS_ARRAY_LEN(keys);
    return keys;
}
