/* The job specification: validated, data-only. The console makes it from a script; daemon and
 * runner read it. Canonical encoding: JSON, sorted keys, compact; its SHA-256 is the identity of a
 * job. */
#ifndef CS_MODEL_SPEC_H
#define CS_MODEL_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/arch/arch.h"
#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/model/alerts.h"
#include "core/model/placements.h"

/* clang-format off */
/* Document (schema "cornstarch.job/1"; man cornstarch-job.5 is generated from the key table):
 *   name, seed, steps, batch_samples, balance (which slot a sample sits in), slot_order, data_threads,
 *   precision
 *   model.modules[]: name, kind (encoder|projector|llm), dir (absolute HF directory or ""), config (the
 *     directory's config.json as it is), init ("weights"|"random"), encoder: token, processor (its
 *     preprocessor_config.json), feature_layer (int as in LLaVA: -1 last block, -2 ...; null: after the
 *     final norm); projector: layers, activation, bias, family ("mlp"|"linear"|
 *     that of a composite), group, norm_eps, keeps_class, newline; llm: tokenizer (directory), mask (who
 *     attends to whom; a rule of core/mask), window, prefix (of the rules of these names)
 *   model.rules[]: {"op": "train"|"freeze", "glob": "vision.projector"} in order, last match wins (globs: graph.h);
 *     nothing matches: frozen
 *   model.adapters[]: LoRA on matrices of a module, which are frozen: module, targets, rank, alpha, rslora, dir
 *   plan: cluster ("here" or object), modality, parallel{branch:{pp, vpp, place, tp, cp, dp, zero, recompute, offload}}, schedule, seq_tokens, slots, dp, stripes,
 *     encoder_rows{branch:rows} (optional), stages ("frozen-aware"|"frozen-blind"|"equal-layers"), profile (null or a
 *     cornstarch.profile/1: what layers cost as it was measured)
 *   plan_hash: of the previewed plan ("" : none)
 *   data: format "llava", json, images, template{...}, on_bad_sample, max_bad_fraction, shuffle_images
 *   eval: null or {data, every_steps, metric, max_samples}
 *   optimizer: kind "adamw", lr, betas, eps, weight_decay, clip, warmup_steps, state ("fp32"|"bf16"), groups[]: glob with lr and weight_decay of its own; lr: kind, final_ratio
 *   checkpoint: every_steps (0: only at the end), keep, dir ("" : in the job directory)
 *   alerts: thresholds of alarms by rule (core/model/alerts.h), false: off */
/* clang-format on */

enum { CS_MAX_ENCODERS = 4, CS_MAX_MODULES = 12, CS_SPEC_MAX_BYTES = 4 * 1024 * 1024 };

/* bytes of a cache of decoded media */
#define CS_SPEC_CACHE_LEAST INT64_C(1000000)
#define CS_SPEC_CACHE_MOST  INT64_C(1000000000000000)

/* of a picture; three bytes of each fit an int32_t */
enum { CS_SPEC_PIXELS_MOST = 500000000 };

/* samples of a step, which one feeder holds all at once; slots of it that a plan is made for */
enum {
    CS_SPEC_MAX_BATCH = 262144,
    CS_SPEC_MAX_SLOTS = 4096,
    CS_SPEC_MAX_DP = 1024,
    CS_SPEC_MAX_DATA_THREADS = 64
};

/* What the processor of an encoder makes of a file at most. Without rows: one picture of the size
 * that the encoder's config.json names. */
struct cs_spec_items {
    int32_t rows, patches, bytes; /* of the largest item; core/model/budget.h says what these are */
    int32_t of_file;              /* items */
    bool has_sources;
};

struct cs_spec_module {
    const char *name, *dir, *init, *token, *tokenizer;
    const char
        *key; /* encoder: of its files in a sample, "": by rule (input/data/record/record_keys.h) */
    const char *family, *activation; /* projector */
    int32_t n_layers;                /* projector */
    bool has_bias;                   /* projector */
    int32_t group;                   /* projector: rows of the encoder that become one; 0: 1 */
    double norm_eps;                 /* projector: of its norm, 0: that of its family */
    bool keeps_class;                /* projector: the encoder's class row is a row like others */
    bool has_newline;                /* projector: a learned row ends lines of pictures */
    enum cs_module_kind kind;
    const json_t *config, *processor;
    const json_t *video; /* encoder of pictures: what is done to videos; NULL: it reads none */
    bool has_feature_layer;
    int32_t feature_layer;
    struct cs_spec_items items;
    const char *mask;       /* llm: name of a rule of core/mask; NULL or "causal": the default */
    int32_t window, prefix; /* tokens, of the rules of these names */
};

struct cs_spec_rule {
    bool is_train;
    const char *glob;
};

/* LoRA: y += scale (x A^T) B^T beside a frozen matrix (Hu et al. 2021), as PEFT has it. */
struct cs_spec_adapter {
    const char *module; /* "llm", "vision.encoder" */
    const char
        *targets; /* "q_proj|v_proj": names of layers or their ends, globs, or "all-linear" */
    int32_t rank;
    double alpha;      /* scale is alpha / rank; 0: 1 */
    bool is_rank_root; /* scale is alpha / sqrt(rank) */
    const char *dir;   /* PEFT directory with values, "": fresh ones */
};

/* Parameters whose names match have their own peak of the learning rate, their own decay. */
struct cs_spec_group {
    const char *glob;
    double lr, weight_decay; /* below 0: the optimizer's */
};

struct cs_spec_parallel {
    const char *branch;
    int32_t pp, tp, cp, ep, zero;
    int32_t dp;            /* replicas of this branch, 0: the plan's */
    int32_t vpp;           /* chunks of every stage of the LLM (interleaved), 0: the schedule's */
    const char *place;     /* name of a placement, "modality" or NULL: that of the plan */
    bool sp;               /* rows between products are split over the ranks of tp */
    int64_t encoder_rows;  /* rows budget of a slot, 0: derived */
    const char *recompute; /* "none" | "selective" | "full" */
    const char *offload;   /* "none" | "host" */
};

struct cs_spec_data {
    const char *format, *json, *images, *on_bad_sample; /* "skip" | "fail" */
    const json_t *template_;
    const json_t *mix; /* further sources (input/data/mix.h); null: none */
    const char *name;  /* channel of the first */
    double weight;     /* of the first, 0: none is said */
    double max_bad_fraction;
    const char *cache_dir; /* of decoded media, "": none */
    int64_t cache_bytes;
    int64_t max_picture_pixels;
    bool shuffle_images; /* a control: pictures permuted between samples */
    bool follows_links;  /* symbolic links may lead out of the folder of the pictures */
};

struct cs_spec {
    const json_t *root;    /* the document, owned by the caller */
    char hash[65];         /* SHA-256 of the canonical encoding, hex */
    char trained_hash[65]; /* the same of what is trained (cs_spec_trained) */
    const char *name;
    uint64_t seed;
    int64_t steps, batch_samples;
    const char *balance;    /* "list2d" | "lpt" | "entrain" | "random" | "stream" */
    const char *slot_order; /* "kept" | "searched" */
    int32_t data_threads;   /* 0: as core/data/data_threads.h chooses */
    const char *precision;  /* "bf16" | "fp32", "": what the ranks' devices usually compute in */
    struct cs_spec_module module[CS_MAX_MODULES];
    int32_t n_modules;
    struct cs_spec_rule *rules;
    int32_t n_rules;
    struct cs_spec_adapter *adapters;
    int32_t n_adapters;
    struct cs_spec_group *groups;
    int32_t n_groups;
    const char *modality, *schedule, *stages, *stripes, *plan_hash;
    const json_t *profile; /* measured costs (core/plan/cost/basis/profile.h), NULL: none */
    const json_t *cluster; /* an object, or NULL or the string "here": the ranks of this machine */
    struct cs_spec_parallel parallel[CS_MAX_ENCODERS + 1];
    int32_t n_parallel;
    int32_t seq_tokens, slots, dp, context_rows;
    const char
        *context; /* a rule of core/plan/tokens/balance.h: rows of a slot to ranks of a context */
    const char *context_exchange; /* "auto" | "keys" | "heads" */
    struct cs_spec_data data, eval_data;
    bool has_eval;
    const char *eval_metric; /* "exact_match" | "loss" */
    int64_t eval_every, eval_max_samples;
    double lr, beta1, beta2, eps, weight_decay, clip, lr_final_ratio;
    int64_t warmup_steps;
    const char *state;   /* of training: "fp32" | "bf16" (without masters) */
    const char *lr_kind; /* "constant" | "linear" | "cosine" */
    int64_t checkpoint_every, checkpoint_keep;
    const char *checkpoint_dir;
    double alert[CS_ALERT_COUNT]; /* thresholds of the rules that are measured, 0: off */
};

/* One row per key of the document: validation, defaults, "did you mean" and the manual page come
 * from the same table. A key's path is group + "." + key; in a group, "[]" stands for an index and
 * "*" for the name of a branch. eval.data has the keys of data. */
enum cs_spec_type {
    CS_SPEC_GROUP, /* object or list with keys of its own */
    CS_SPEC_INT,   /* JSON integer in [min, max] */
    CS_SPEC_NUMBER,
    CS_SPEC_LIMIT, /* number in [min, max], or false, which is stored as 0 */
    CS_SPEC_BOOL,
    CS_SPEC_STRING, /* one of accept ("a|b") when that is set; max: bytes */
    CS_SPEC_PATH,   /* string: absolute path, or "" */
    CS_SPEC_PAIR,   /* two numbers in [min, max] */
    CS_SPEC_FREE,   /* object, of default [] a list of objects, checked by whoever uses it */
    CS_SPEC_TYPES
};

/* What a key is of. A job may go on under another layout; it keeps its labels, and what it trains
 * must stay. */
enum cs_spec_side { CS_SPEC_TRAINED_SIDE, CS_SPEC_LAYOUT_SIDE, CS_SPEC_LABEL_SIDE };

struct cs_spec_key {
    const char *group, *key;
    enum cs_spec_type type;
    double min, max;
    const char *accept;   /* accepted words, or NULL */
    const char *fallback; /* default as text; NULL: the key must be there; "null": may be null */
    const char *kind;     /* of modules: only for this kind ("encoder"), NULL: any */
    enum cs_spec_side side;
    const char *help;
    size_t field; /* where it is read to, in the struct of its group; not for GROUP */
    int store;    /* private to spec/read.c: the type of that field */
};
const struct cs_spec_key *cs_spec_keys(int *n);

/* Validate and read; every error names the path of the key ("plan.parallel.llm.pp"), the value and
 * what is accepted, unknown keys get the nearest name. Strings live in arena; root
 * must stay alive. */
enum cs_status cs_spec_read(const json_t *root, struct cs_arena *arena, struct cs_spec **out,
                            struct cs_err *err) CS_NODISCARD;
/* What a valid document says of what is trained: the rows of that side, defaults written
 * out. Two jobs whose trained documents are equal train the same, on whatever ranks. NULL: no
 * memory. */
json_t *cs_spec_trained(const json_t *root);

/* The first key in which two trained documents differ, with both values as JSON; "" when they are
 * equal. */
struct cs_spec_difference {
    char path[256], a[256], b[256];
};

void cs_spec_compare(const json_t *a, const json_t *b, struct cs_spec_difference *out);
/* The document `job` with the layout of the document `from`; plan_hash comes from there too. NULL:
 * no memory. */
json_t *cs_spec_with_layout(const json_t *job, const json_t *from);
/* What the request says of a branch, NULL: nothing. */
const struct cs_spec_parallel *cs_spec_parallel_of(const struct cs_spec *spec, const char *branch);
/* Where an encoder runs: its own "place", else the plan's "modality". NULL: that is not known. */
const struct cs_placement_info *cs_spec_placement(const struct cs_spec *spec, const char *branch);
/* Heads are exchanged between ranks of a context, not keys. */
bool cs_spec_moves_heads(const struct cs_spec *spec);
/* ... or it is up to the planner. */
bool cs_spec_chooses_exchange(const struct cs_spec *spec);
/* Ranks that the request asks for, over all replicas: what a reader knows that does not plan. */
int64_t cs_spec_ranks(const struct cs_spec *spec);

/* The parts alone, for what is made before there is a job: the model part into a new spec whose other
 * fields are defaults (one step of one sample), then the plan part into such a spec. Errors name the
 * keys as they are called in a job: "model.modules[0].name". */
enum cs_status cs_spec_read_model(const json_t *model, struct cs_arena *arena, struct cs_spec **out,
                                  struct cs_err *err) CS_NODISCARD;
enum cs_status cs_spec_read_plan(const json_t *plan, struct cs_arena *arena, struct cs_spec *spec,
                                 struct cs_err *err) CS_NODISCARD;
/* A job, or {schema: "cornstarch.preview/1", name, model, plan, optimizer}, of which only the model
 * must be there: what graphs and plans are made from. */
enum cs_status cs_spec_read_preview(const json_t *root, struct cs_arena *arena,
                                    struct cs_spec **out, struct cs_err *err) CS_NODISCARD;
/* Whether ranks of a device class ("cpu", "h100-80g" ...) compute in the precision that is asked
 * for, CPU ranks do in fp32 only, and keep the state of training as is asked for: in bf16 only
 * where they compute in it. CS_INVALID says what to do. */
enum cs_status cs_spec_check_precision(const struct cs_spec *spec, const char *device,
                                       struct cs_err *err) CS_NODISCARD;
/* lr factor of optimizer step s (0-based), in [0, 1]: transformers' constant, linear and cosine
 * schedules with warm-up. The warm-up is (s + 1) / warmup_steps, one step ahead of transformers',
 * whose first step has factor 0 and so changes nothing; from s = warmup_steps on both are equal.
 * After it, with p = (s - warmup) / max(1, steps - warmup): linear 1 - p, cosine (1 + cos(pi p)) /
 * 2, each scaled to end at final_ratio (as transformers' cosine_with_min_lr does). */
double cs_spec_lr(const struct cs_spec *spec, int64_t step);
/* an evaluation follows this step (0-based): every eval_every-th, and the last */
bool cs_spec_evaluates_after(const struct cs_spec *spec, int64_t step);

#endif
