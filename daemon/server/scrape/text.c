/* The page: the daemon, its jobs by state, what each live job is and did last, devices. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/wire/metric.h"
#include "core/wire/wire.h"
#include "server/node/node.h"
#include "server/scrape/prom.h"
#include "server/scrape/scrape.h"

/* --- the daemon ------------------------------------------------------------------------------- */

static void add_daemon(const struct cs_server *server, struct cs_buf *out)
{
    const struct cs_prom_label version[] = {
        {"version", CORNSTARCH_VERSION},
        {NULL,      NULL              }
    };
    cs_prom_family(out, "cornstarch_build_info", "gauge", "the daemon's release");
    cs_prom_sample(out, "cornstarch_build_info", version, 1);
    cs_prom_family(out, "cornstarch_start_time_seconds", "gauge", "when the daemon was started");
    cs_prom_sample(out, "cornstarch_start_time_seconds", NULL, (double)server->started_ns / 1e9);
    cs_prom_family(out, "cornstarch_draining", "gauge", "1: no queued job is started");
    cs_prom_sample(out, "cornstarch_draining", NULL, server->is_draining);
}

static void add_counts(const struct cs_server *server, struct cs_buf *out)
{
    cs_prom_family(out, "cornstarch_jobs", "gauge", "jobs of the history by state");
    for (int s = 0; s < CS_JOB_STATE_COUNT; s++) {
        size_t n = 0;
        const struct cs_prom_label labels[] = {
            {"state", cs_job_state_row((enum cs_job_state)s)->name},
            {NULL,    NULL                                        }
        };
        for (size_t i = 0; i < server->n_jobs; i++)
            n += cs_job_is(server->jobs[i], (enum cs_job_state)s);
        cs_prom_sample(out, "cornstarch_jobs", labels, (double)n);
    }
}

static void add_ranks(const struct cs_server *server, struct cs_buf *out, const char *name,
                      const char *help, int64_t (*count)(const struct cs_server *, bool))
{
    static const char *const kinds[] = {"cpu", "cuda"};
    cs_prom_family(out, name, "gauge", help);
    for (int is_gpu = 0; is_gpu < 2; is_gpu++) {
        const struct cs_prom_label labels[] = {
            {"device", kinds[is_gpu]},
            {NULL,     NULL         }
        };
        cs_prom_sample(out, name, labels, (double)count(server, is_gpu));
    }
}

/* --- jobs ------------------------------------------------------------------------------------- */

static void add_job_info(const struct cs_server *server, struct cs_buf *out)
{
    cs_prom_family(out, "cornstarch_job_info", "gauge",
                   "a job that has not ended, or less than five minutes ago");
    for (size_t i = 0; i < server->n_jobs; i++) {
        const struct cs_job_row *row = &server->jobs[i]->row;
        char id[24];
        snprintf(id, sizeof id, "%lld", (long long)row->id);
        const struct cs_prom_label labels[] = {
            {"job",    id         },
            {"name",   row->name  },
            {"owner",  row->owner },
            {"state",  row->state },
            {"device", row->device},
            {NULL,     NULL       }
        };
        if (cs_job_is_recent(server->jobs[i]))
            cs_prom_sample(out, "cornstarch_job_info", labels, 1);
    }
}

static const struct {
    const char *name, *help;
    size_t offset;
} counts[] = {
    {"cornstarch_job_step",            "steps that are done",           offsetof(struct cs_job_row, step)           },
    {"cornstarch_job_steps",           "steps that the job is made of", offsetof(struct cs_job_row, steps)          },
    {"cornstarch_job_ranks",           "devices that it takes",         offsetof(struct cs_job_row, ranks)          },
    {"cornstarch_job_checkpoint_step", "of the newest checkpoint",
     offsetof(struct cs_job_row,                                                                    checkpoint_step)},
};

static void add_job_counts(const struct cs_server *server, struct cs_buf *out)
{
    for (size_t k = 0; k < CS_ARRAY_LEN(counts); k++) {
        cs_prom_family(out, counts[k].name, "gauge", counts[k].help);
        for (size_t i = 0; i < server->n_jobs; i++) {
            const struct cs_job_row *row = &server->jobs[i]->row;
            char id[24];
            const struct cs_prom_label labels[] = {
                {"job", id  },
                {NULL,  NULL}
            };
            snprintf(id, sizeof id, "%lld", (long long)row->id);
            if (cs_job_is_recent(server->jobs[i]))
                cs_prom_sample(out, counts[k].name, labels,
                               (double)*(const int64_t *)((const char *)row + counts[k].offset));
        }
    }
}

/* Samples of one metric of the table, or of its members, from the last rows of all jobs. */
struct family {
    const struct cs_metric *metric;
    bool is_of_members;
    char name[96], label[32], job[24];
    double scale;
    const char *kind;
    struct cs_buf samples;
};

/* "sources" to "source": a member's label is what it is one of */
static void name_family(struct family *f)
{
    cs_prom_name(f->metric->name, f->name, sizeof f->name, &f->scale);
    if (!f->is_of_members)
        return;
    const size_t n = strlen(f->name);
    snprintf(f->label, sizeof f->label, "%.*s", (int)strlen(f->metric->members) - 1,
             f->metric->members);
    snprintf(f->name + n, sizeof f->name - n, "_by_%s", f->label);
}

static void take_value(void *user, const char *name, double value)
{
    struct family *f = user;
    const char *slash = strchr(name, '/');
    if (cs_metric_find(name) != f->metric || (slash != NULL) != f->is_of_members)
        return;
    const struct cs_prom_label labels[] = {
        {"job",                              f->job                  },
        {"kind",                             f->kind                 },
        {f->is_of_members ? f->label : NULL, slash ? slash + 1 : NULL},
        {NULL,                               NULL                    }
    };
    cs_prom_sample(&f->samples, f->name, labels, value * f->scale);
}

static void add_metric(const struct cs_server *server, struct family *f, struct cs_buf *out)
{
    static const char *const kinds[] = {"train", "eval"};
    name_family(f);
    for (size_t i = 0; i < server->n_jobs; i++) {
        const struct cs_job *job = server->jobs[i];
        snprintf(f->job, sizeof f->job, "%lld", (long long)job->row.id);
        for (int k = 0; k < 2 && cs_job_is_recent(job); k++) {
            f->kind = kinds[k];
            cs_metric_read(job->last_row[k], take_value, f);
        }
    }
    if (f->samples.len > 0) {
        cs_prom_family(out, f->name, "gauge", f->metric->help);
        cs_buf_add(out, f->samples.data, f->samples.len);
    }
    cs_buf_free(&f->samples);
}

static void add_steps(const struct cs_server *server, struct cs_buf *out)
{
    for (int i = 0; i < cs_n_metrics; i++)
        for (int k = 0; k < 1 + (cs_metrics[i].members != NULL); k++) {
            struct family f = {.metric = &cs_metrics[i], .is_of_members = k == 1};
            add_metric(server, &f, out);
        }
}

/* --- devices ---------------------------------------------------------------------------------- */

static const struct {
    const char *key, *name, *type, *help;
    double scale;
} figures[] = {
    {"busy",           "cornstarch_gpu_busy_ratio",          "gauge",   "of time, with a kernel running", 1   },
    {"mem_used_bytes", "cornstarch_gpu_memory_used_bytes",   "gauge",   "in use by anybody",              1   },
    {"mem_bytes",      "cornstarch_gpu_memory_bytes",        "gauge",   "that there is",                  1   },
    {"power_mw",       "cornstarch_gpu_power_watts",         "gauge",   "of the board",                   1e-3},
    {"temp_c",         "cornstarch_gpu_temperature_celsius", "gauge",   "of the chip",                    1   },
    {"sm_mhz",         "cornstarch_gpu_clock_hertz",         "gauge",   "of the multiprocessors",         1e6 },
    {"energy_mj",      "cornstarch_gpu_energy_joules_total", "counter", "since the driver was loaded",
     1e-3                                                                                                     },
};

static void add_figure(const json_t *devices, size_t k, struct cs_buf *out)
{
    double value;
    cs_prom_family(out, figures[k].name, figures[k].type, figures[k].help);
    for (size_t i = 0; i < json_array_size(devices); i++) {
        json_t *device = json_array_get(devices, i);
        const struct cs_prom_label labels[] = {
            {"gpu",              cs_msg_str(device,     "name", "")},
            {"model",               cs_msg_str(device,                                    "model", "")},
            {"uuid",cs_msg_str(device,"uuid", "")},
            {NULL,                  NULL                                 }
        };
        if (cs_json_to_num(json_object_get(device, figures[k].key), &value))
            cs_prom_sample(out, figures[k].name, labels, value * figures[k].scale);
    }
}

void cs_scrape_text(struct cs_server *server, struct cs_buf *out)
{
    add_daemon(server, out);
    add_counts(server, out);
    add_ranks(server, out, "cornstarch_devices", "what jobs may be given", cs_node_offers);
    add_ranks(server, out, "cornstarch_devices_held", "what jobs hold", cs_node_held);
    add_job_info(server, out);
    add_job_counts(server, out);
    add_steps(server, out);
    json_t *devices = cs_node_devices(server, CS_DEVICES_GPUS);
    for (size_t k = 0; json_array_size(devices) > 0 && k < CS_ARRAY_LEN(figures); k++)
        add_figure(devices, k, out);
    json_decref(devices);
}
