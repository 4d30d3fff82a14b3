/* The table of metrics, and how each is read from a row. */
#include "core/wire/metric.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/wire/wire.h"

static double num(const json_t *step, const char *key)
{
    return cs_msg_num(step, key, (double)NAN);
}

static double positive(const json_t *step, const char *key)
{
    const double value = num(step, key);
    return value > 0 ? value : (double)NAN;
}

static double loss(const json_t *step)
{
    return num(step, "loss");
}

static double grad_norm(const json_t *step)
{
    return num(step, "grad_norm");
}

static double aux_loss(const json_t *step)
{
    return num(step, "aux_loss");
}

static double lr(const json_t *step)
{
    return num(step, "lr");
}

/* rows of job.metrics have it ready, messages the two counts */
static double exact_match(const json_t *step)
{
    const double samples = positive(step, "samples"), ready = num(step, "exact_match");
    if (!isnan(ready) || !cs_metric_is_eval(step))
        return ready;
    return num(step, "correct") / samples;
}

static double step_ms(const json_t *step)
{
    const double ready = positive(step, "step_ms");
    return isnan(ready) ? positive(step, "step_ns") / 1e6 : ready;
}

static double tokens(const json_t *step)
{
    const double all = positive(step, "tokens");
    return isnan(all) ? positive(step, "trained_tokens") : all;
}

static double samples(const json_t *step)
{
    return positive(step, "samples");
}

static double tokens_per_s(const json_t *step)
{
    return tokens(step) * 1e3 / step_ms(step);
}

static double samples_per_s(const json_t *step)
{
    return samples(step) * 1e3 / step_ms(step);
}

static double mean(const json_t *list)
{
    double sum = 0, value;
    size_t n = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (cs_json_to_num(json_array_get(list, i), &value) && isfinite(value)) {
            sum += value;
            n++;
        }
    return n ? sum / (double)n : (double)NAN;
}

static double mfu(const json_t *step)
{
    return num(step, "mfu");
}

static double bubble(const json_t *step)
{
    const json_t *ranks = cs_msg_arr(step, "bubble");
    return ranks != NULL ? mean(ranks) : num(step, "bubble");
}

static double data_wait_ms(const json_t *step)
{
    return num(step, "data_wait_us") / 1e3;
}

static double memory_gib(const json_t *step)
{
    return positive(step, "mem_bytes") / (1 << 30);
}

static double power_w(const json_t *step)
{
    return num(step, "energy_mj") / step_ms(step);
}

static double tokens_per_j(const json_t *step)
{
    return tokens(step) * 1e3 / positive(step, "energy_mj");
}

/* work of the ranks that share a sequence: the largest over the mean */
static double balance(const json_t *step)
{
    const json_t *ranks = cs_msg_arr(step, "context");
    double most = 0, sum = 0, work;
    for (size_t i = 0; i < json_array_size(ranks); i++)
        if (cs_json_to_num(json_array_get(json_array_get(ranks, i), 3), &work) && work >= 0) {
            most = work > most ? work : most;
            sum += work;
        }
    return sum > 0 ? most * (double)json_array_size(ranks) / sum : (double)NAN;
}

/* clang-format off */
const struct cs_metric cs_metrics[] = {
    {"loss", "loss", "",
     "mean over the tokens that are trained on; of each source of samples too, where they have names",
     false, true, loss, "sources", "loss"},
    {"aux_loss", "balance loss of experts", "",
     "of all layers together, about num_experts_per_tok where every expert has as many rows; times router_aux_loss_coef it is trained beside the loss",
     false, true, aux_loss, NULL, NULL},
    {"exact_match", "exact match", "",
     "share of the samples of an evaluation that were answered exactly",
     true, true, exact_match, NULL, NULL},
    {"grad_norm", "gradient norm", "",
     "of all trained parameters, before clipping",
     false, false, grad_norm, NULL, NULL},
    {"lr", "learning rate", "",
     "that the step was made with",
     false, false, lr, NULL, NULL},
    {"tokens_per_s", "tokens a second", "tok/s",
     "tokens of the step over its time",
     false, false, tokens_per_s, NULL, NULL},
    {"samples_per_s", "samples a second", "/s",
     "samples of the step over its time",
     false, false, samples_per_s, NULL, NULL},
    {"step_ms", "step time", "ms",
     "wall time of a step; its parts are what a rank did, mean over the ranks",
     false, false, step_ms, "parts", NULL},
    {"mfu", "model FLOPs used", "",
     "of what the ranks could compute in the time: model FLOPs of the rows that were there, of each module on its ranks",
     true, false, mfu, "modules", "mfu"},
    {"bubble", "idle share", "",
     "of the ranks' time, mean over them",
     true, false, bubble, NULL, NULL},
    {"data_wait_ms", "wait for data", "ms",
     "of the rank that waited longest",
     false, false, data_wait_ms, NULL, NULL},
    {"memory_gib", "memory", "GiB",
     "of the rank that holds most: of its GPU, else of its process",
     false, false, memory_gib, NULL, NULL},
    {"power_w", "power", "W",
     "of the GPUs of all ranks together",
     false, false, power_w, NULL, NULL},
    {"tokens_per_j", "tokens a joule", "/J",
     "tokens over the energy of the GPUs",
     false, false, tokens_per_j, NULL, NULL},
    {"balance", "largest work", "",
     "of ranks that share a sequence: the largest over the mean",
     false, false, balance, NULL, NULL},
    {"tokens", "tokens", "",
     "of the step",
     false, false, tokens, NULL, NULL},
    {"samples", "samples", "",
     "of the step",
     false, false, samples, NULL, NULL},
};
/* clang-format on */
const int cs_n_metrics = CS_ARRAY_LEN(cs_metrics);

const struct cs_metric *cs_metric_find(const char *name)
{
    const size_t n = strcspn(name, "/");
    for (int i = 0; i < cs_n_metrics; i++)
        if (strlen(cs_metrics[i].name) == n && memcmp(cs_metrics[i].name, name, n) == 0 &&
            (name[n] == '\0' || (cs_metrics[i].members != NULL && name[n + 1] != '\0')))
            return &cs_metrics[i];
    return NULL;
}

bool cs_metric_is_eval(const json_t *step)
{
    return strcmp(cs_msg_str(step, "kind", "train"), "eval") == 0;
}

/* A word that stands for no finite number is known: the value diverged. */
static bool has_diverged(const json_t *step, const char *name)
{
    return json_is_string(json_object_get(step, name));
}

static bool member_value(const struct cs_metric *metric, json_t *member, double *value)
{
    return cs_json_to_num(metric->key ? json_object_get(member, metric->key) : member, value);
}

static void read_members(const json_t *step, const struct cs_metric *metric, cs_metric_each *each,
                         void *user)
{
    const char *name = NULL;
    json_t *member = NULL, *all = metric->members ? cs_msg_obj(step, metric->members) : NULL;
    char full[CS_METRIC_NAME];
    double value;
    json_object_foreach(all, name, member)
    {
        if (!member_value(metric, member, &value))
            continue;
        snprintf(full, sizeof full, "%s/%s", metric->name, name);
        each(user, full, value);
    }
}

void cs_metric_read(const json_t *step, cs_metric_each *each, void *user)
{
    for (int i = 0; i < cs_n_metrics; i++) {
        const double value = cs_metrics[i].read(step);
        if (!isnan(value) || has_diverged(step, cs_metrics[i].name))
            each(user, cs_metrics[i].name, value);
        read_members(step, &cs_metrics[i], each, user);
    }
}

double cs_metric_get(const json_t *step, const char *name)
{
    const struct cs_metric *metric = cs_metric_find(name);
    const char *slash = strchr(name, '/');
    double value = (double)NAN;
    if (metric == NULL || slash == NULL)
        return metric ? metric->read(step) : value;
    json_t *member = json_object_get(cs_msg_obj(step, metric->members), slash + 1);
    return member != NULL && member_value(metric, member, &value) ? value : (double)NAN;
}

json_t *cs_metric_row(const json_t *columns, const json_t *row)
{
    json_t *out = json_object();
    CS_ASSERT(out);
    for (size_t i = 0; i < json_array_size(columns); i++) {
        json_t *value = json_array_get(row, i);
        const char *name = json_string_value(json_array_get(columns, i));
        if (name != NULL && value != NULL && !json_is_null(value))
            json_object_set(out, name, value);
    }
    return out;
}
