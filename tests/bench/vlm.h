/* SigLIP-so400m + MLP + Llama shapes (1B or 8B) with random weights, or those that a config.json names, as
 * benchmarks run them: options of the command line, the job's document and plan, slots like training
 * data, one process a rank. What fails ends the program with a message. */
#ifndef CS_TESTS_BENCH_VLM_H
#define CS_TESTS_BENCH_VLM_H

#include "worker/train/trainer.h"

enum { CS_VLM_MAX_RANKS = 8, CS_VLM_IMAGE_ROWS = 729, CS_VLM_SETTINGS = 4, CS_VLM_MAX_STEPS = 64 };

enum { CS_VLM_EVENTS = 1 << 14 }; /* of a step and rank */

struct cs_vlm_setting {
    const char *name;
    bool is_encoder_frozen, is_projector_frozen, is_llm_frozen;
};

extern const struct cs_vlm_setting cs_vlm_settings[CS_VLM_SETTINGS];

/* Shapes of Llama-3.2-1B and Llama-3.1-8B, and of Qwen3-30B-A3B, whose ffn is a mixture of experts. */
struct cs_vlm_llm {
    const char *name;
    int hidden, ffn, layers, heads, kv_heads, head_dim;
    bool is_tied;
    int experts, top_k; /* 0: none; else ffn is of one of them */
};

extern const struct cs_vlm_llm cs_vlm_llm_1b;

/* NAME=VALUE on the command line; a program documents those that it uses. */
struct cs_vlm_options {
    char device[16], class[16], precision[8], schedule[16], modality[24], recompute[12], stages[16];
    char state[8];                  /* optimizer.state */
    char size[8];                   /* of the LLM: "1b", "8b", a share of that, "30b-a3b" */
    const struct cs_vlm_llm *shape; /* from it */
    char profile[256], save[256];
    char model[256];      /* directory of a composite's config.json; "": SigLIP and Llama */
    int picture;          /* pixels of a side of its pictures */
    int side, image_rows; /* of a picture, from the two before: patches a side, LLM rows */
    int vision, llm;      /* pipeline stages; vision 0: everything on one rank */
    int zero;             /* what replicas divide: 1, 2, 3 */
    char offload[8];      /* where activations of the LLM wait: none, host */
    int dp, cp, tp,
        ep;   /* cp, tp: ranks that share the LLM's rows of a slot, its matrices; ep: experts */
    int sp;   /* 1: those that share matrices split rows between products */
    int sums; /* 0: they exchange no rows (bench_worker_step.c) */
    int slots, seq, images; /* images 0: the LLM alone */
    int layers, vocab;      /* of the LLM, 0: as many as it has */
    int warm, steps; /* before those that are measured, which are so many: operators are loaded,
                      * products planned and graphs made (worker/exec/state/graphs.h) */
    int only;        /* index of a setting ("case"), -1: all */
    int scale;       /* divides widths and layers, for a look on CPU ranks */
    int ops;         /* 1: time every operator (bench/timed_ops.h) */
    int tune; /* candidates for plans of matrix products, measured at their first use; -1: as jobs
               * measure them, between steps; 0: the library's first */
};

/* of the LLM, divided by scale where they are not given */
int cs_vlm_layers(const struct cs_vlm_options *o);
int cs_vlm_vocab(const struct cs_vlm_options *o);

/* The defaults of all options but steps, which the caller sets before. */
void cs_vlm_options_read(struct cs_vlm_options *o, int argc, char **argv);

void cs_vlm_must(enum cs_status status, const struct cs_err *err);

/* New values for documents of their own. config.json of the two models, widths divided by scale;
 * image: pixels of a side. The rules of a setting. */
json_t *cs_vlm_vision_config(int scale, int layers, int image);
json_t *cs_vlm_llm_config(const struct cs_vlm_llm *shape, int scale, int layers, int vocab);
json_t *cs_vlm_rules(const struct cs_vlm_setting *s);

/* A new document; profile (may be NULL) is what its layers cost. */
json_t *cs_vlm_document(const struct cs_vlm_options *o, const struct cs_vlm_setting *s,
                        json_t *profile);

struct cs_vlm_job {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_cluster cluster;
};

void cs_vlm_job_open(struct cs_vlm_job *job, const struct cs_vlm_options *o,
                     const struct cs_vlm_setting *s, json_t *profile);
void cs_vlm_job_close(struct cs_vlm_job *job);

/* A block of random normals, repeated: generating a billion of them would take longer than all. */
void cs_vlm_fill_weights(struct cs_params *params);
/* One sample: pictures in equal parts of the sequence, the rest is text, of which at most the first
 * n_labels rows have labels. Adds to the manifest. */
void cs_vlm_fill_slot(const struct cs_vlm_options *o, const struct cs_vlm_job *job, int n_labels,
                      struct cs_slot *slot, struct cs_manifest *manifest, int index);

/* A rank at work: device, neighbours, trainer with random weights, the slots of a step. Stays where
 * it is opened. */
struct cs_vlm_worker {
    struct cs_device device;
    struct cs_comm *comm; /* these five: NULL where there is nobody to talk to */
    struct cs_channels *channels;
    struct cs_context_comm *context, *sharers, *experts;
    struct cs_replicas *replicas;
    struct cs_trainer *trainer;
    struct cs_ring ring;
    struct cs_manifest manifest;
    struct cs_slot slot[CS_STEP_MAX_SLOTS];
    struct cs_slot_counts counts[CS_STEP_MAX_SLOTS]; /* of the manifest */
    const struct cs_rank_program *program;           /* of this rank, what events name */
    void *ring_memory, *pool;
};

/* fds: to the other ranks; n_labels: see cs_vlm_fill_slot */
void cs_vlm_worker_open(struct cs_vlm_worker *w, const struct cs_vlm_options *o,
                        const struct cs_vlm_job *job, int n_labels, int rank, const int *fds);
/* one step over the same slots; returns how long it took, ns */
int64_t cs_vlm_worker_step(struct cs_vlm_worker *w, int step, struct cs_step_result *result);
/* what happened since the last call: at most CS_VLM_EVENTS, in memory of the program's own */
uint32_t cs_vlm_worker_events(struct cs_vlm_worker *w, const struct cs_event **out);
void cs_vlm_worker_close(struct cs_vlm_worker *w);

/* One process for each of n ranks, connected with all others (fds, -1: itself); false: one of them
 * failed. */
typedef void cs_vlm_rank(void *user, int rank, const int *fds);
bool cs_vlm_run_ranks(int n, cs_vlm_rank *run, void *user);

int cs_vlm_by_value(const void *a, const void *b); /* of int64_t, for qsort */

#endif
