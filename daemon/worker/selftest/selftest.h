/* A model family against transformers: a directory with config.json, model.safetensors and
 * golden.safetensors (inputs, outputs, gradients, five AdamW steps) is read, run and trained here, and
 * what comes out is compared.
 *
 * golden.safetensors: in.ids and in.labels (batch, rows), labels not shifted, -100: none; in.x what a
 * tower is given; in.probe: a tower alone, whose loss is sum(out.last * in.probe); out.logits, out.last,
 * out.loss (mean over out.tokens trained tokens), grad.NAME of out.loss, step.loss and step.norm of
 * AdamW (lr 1e-3, betas 0.9 0.95, eps 1e-8, weight decay 0.1 where a tensor has two dimensions and more,
 * clip 1.0) on the same batch. Losses have the experts' balance in them, as classes say them, or not;
 * out.aux_loss (or out.balance) is that loss alone. */
#ifndef CS_WORKER_SELFTEST_SELFTEST_H
#define CS_WORKER_SELFTEST_SELFTEST_H

#include <jansson.h>

#include "worker/device/device.h"

/* One comparison: deviation is the one that is furthest over its limit, which is the usual one, or twice
 * what rounding alone does to this model where that is more (noise.c); where names it. */
struct cs_selftest_check {
    const char *what; /* a constant: "logits", "loss", "gradients", "step loss", "step norm", ... */
    double deviation, limit;
    double usual, most; /* the least and the largest that the limit can be */
    double noise;       /* the largest that was seen */
    int64_t n;          /* values or tensors compared */
    char where[160];
};

enum { CS_SELFTEST_CHECKS = 8 };

struct cs_selftest {
    char family[64]; /* model_type */
    int n_experts;   /* of a layer of the language model; 0: none */
    struct cs_selftest_check check[CS_SELFTEST_CHECKS];
    int n_checks;
};

/* Whether the deviation is within the limit; NaN is not. */
bool cs_selftest_is_good(const struct cs_selftest_check *check);

/* How a test lies on ranks, which are threads of this process and run what the ranks of a job run. Its
 * step has a slot for every document of the batch, then slots with all of them, until every replica has
 * as many as any schedule asks for: so means are those of the golden. (With a balancing loss of experts, which is
 * of a slot, all slots have the whole batch.) */
struct cs_selftest_layout {
    int stages, encoder_stages, replicas; /* of the language model, of every encoder; 1 or more */
    int context; /* ranks of every stage of the language model that split its rows; 0 and 1: none */
    int encoder_context; /* ranks of every stage of an encoder that share its items; 0 and 1: none */
    int tensors, encoder_tensors; /* ranks of every stage that share its matrices; 0 and 1: none */
    int experts; /* of replicas x context ranks those that share experts; 0 and 1: none */
    int zero;    /* what those with the same weights divide, where there are several; 0: as 1 */
    bool splits_rows; /* all these split rows between products, too */
    const char *modality, *schedule,
        *recompute;    /* as of a job; NULL: encoder-parallel, 1f1b, none */
    const char *train; /* globs of layers that train, blanks between; NULL: all, or the adapters */
    bool
        is_bare; /* every second slot is of a document without its media, so that with two replicas one
                   * has none; that is compared with one rank alone */
};

struct cs_selftest_request {
    const char *dir;
    const char
        *adapter; /* NULL, or a directory with golden.safetensors and adapter/ (PEFT's) of the
                          * model in dir, whose adapters alone are trained */
    const char *written; /* NULL, or where the trained model goes (store/hf/export.h), with
                          * after.safetensors: its "logits" (n, vocab) of "rows" (n) of the batch, or
                          * the rows of its tower, "last" */
    const struct cs_selftest_layout *layout; /* NULL: one rank. Else the first step is
                          * compared with the golden, and all with one rank on the same slots ("... of one rank") */
};

/* device: keeps state in fp32; in bf16 directions are compared (1 - cosine). Errors: what is missing in
 * dir, or cannot be run; CS_UNSUPPORTED: a layout of a tower alone, or on another device than the host. */
enum cs_status cs_selftest_family(const struct cs_selftest_request *request,
                                  struct cs_device *device, struct cs_selftest *out,
                                  struct cs_err *err) CS_NODISCARD;
/* `cornstarch-worker --selftest`: a request {dir, adapter, written, device, precision,
 * layout {stages, encoder_stages, replicas, context, encoder_context, tensors, encoder_tensors, experts, zero, splits_rows, modality, schedule, recompute, train}} on standard input, the
 * outcome as JSON on standard output. Returns the exit code. */
int cs_selftest_program(void);

#endif
