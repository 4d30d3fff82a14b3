/* The job specification: validated, data-only. The console makes it from a script; daemon and runner
 * read it. Canonical encoding: JSON, sorted keys, compact; its SHA-256 is the identity of a job.
 *
 * Document (schema "cornstarch.job/1"; man cornstarch-job.5 is generated from the key table):
 *   name, seed, steps, batch_samples
 *   model.modules[]: name, kind (encoder|projector|llm), dir (absolute HF directory or ""), config (the
 *     directory's config.json as it is), init ("weights"|"random"), encoder: token, processor (its
 *     preprocessor_config.json), feature_layer (int as in LLaVA: -1 last block, -2 ...; null: after the
 *     final norm); projector: layers, activation, family ("mlp"|"linear"); llm: tokenizer (directory)
 *   model.rules[]: {"op": "train"|"freeze", "glob": "vision.projector"} in order, last match wins;
 *     nothing matches: frozen
 *   plan: cluster ("here" or object), modality, parallel{branch:{pp}}, schedule, seq_tokens, slots,
 *     encoder_rows{branch:rows} (optional), stages ("frozen-aware"|"frozen-blind")
 *   plan_hash: of the previewed plan ("" : none)
 *   data: format "llava", json, images, template{...}, on_bad_sample, max_bad_fraction, shuffle_images
 *   eval: null or data, every_steps, metric, max_samples
 *   optimizer: kind "adamw", lr, betas, eps, weight_decay, clip, warmup_steps ; lr: kind, final_ratio
 *   checkpoint: every_steps (0: only at the end), keep, dir ("" : in the job directory)
 */
#ifndef CS_MODEL_SPEC_H
#define CS_MODEL_SPEC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/status.h"
#include "core/model/arch.h"

enum { CS_MAX_ENCODERS = 4, CS_MAX_MODULES = 12, CS_SPEC_MAX_BYTES = 4 * 1024 * 1024 };

struct cs_spec_module {
    const char *name, *dir, *init, *token, *tokenizer;
    const char *family, *activation; /* projector */
    int32_t n_layers;                /* projector */
    enum cs_module_kind kind;
    const json_t *config, *processor;
    bool has_feature_layer;
    int32_t feature_layer;
};

struct cs_spec_rule {
    bool is_train;
    const char *glob;
};

struct cs_spec_parallel {
    const char *branch;
    int32_t pp;
    int64_t encoder_rows; /* rows budget of a slot, 0: derived */
};

struct cs_spec_data {
    const char *format, *json, *images, *on_bad_sample; /* "skip" | "fail" */
    const json_t *template_;
    double max_bad_fraction;
    bool shuffle_images; /* a control: pictures permuted between samples */
};

struct cs_spec {
    const json_t *root; /* the document, owned by the caller */
    char hash[65];      /* SHA-256 of the canonical encoding, hex */
    const char *name;
    uint64_t seed;
    int64_t steps, batch_samples;
    struct cs_spec_module module[CS_MAX_MODULES];
    int32_t n_modules;
    struct cs_spec_rule *rules;
    int32_t n_rules;
    const char *modality, *schedule, *stages, *plan_hash;
    const json_t *cluster;
    struct cs_spec_parallel parallel[CS_MAX_ENCODERS + 1];
    int32_t n_parallel;
    int32_t seq_tokens, slots;
    struct cs_spec_data data, eval_data;
    bool has_eval;
    int64_t eval_every, eval_max_samples;
    double lr, beta1, beta2, eps, weight_decay, clip, lr_final_ratio;
    int64_t warmup_steps;
    const char *lr_kind; /* "constant" | "linear" | "cosine" */
    int64_t checkpoint_every, checkpoint_keep;
    const char *checkpoint_dir;
};

/* Validate and read; every error names the path of the key ("plan.parallel.llm.pp"), the value and
 * what is accepted, unknown keys get the nearest name. Strings live in arena; root must stay alive. */
enum cs_status cs_spec_read(const json_t *root, struct cs_arena *arena, struct cs_spec **out,
                            struct cs_err *err) CS_NODISCARD;
/* lr factor of optimizer step s (0-based), in (0, 1]: HF schedules, warm-up linear from 0 */
double cs_spec_lr(const struct cs_spec *spec, int64_t step);

#endif
