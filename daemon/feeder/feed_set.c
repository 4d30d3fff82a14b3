/* Opens a data set of the feeder; counts, lists and tells its bad samples. */
#include "feeder/feed_set.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "feeder/quarantine.h"
#include "input/data/early.h"

enum cs_status cs_feed_set_bad(void *user, const struct cs_load *load, struct cs_err *err)
{
    struct cs_feed_set *set = user;
    const struct cs_feeder_config *config = set->config;
    const char *id = load->loaded.record != NULL ? load->loaded.record->id : "";
    double allowed = set->data->max_bad_fraction * (double)cs_source_count(set->source);
    struct cs_err why = {0};
    char reason[2 * sizeof why.text];
    bool is_new = false;
    json_t *msg = NULL;

    if (strcmp(set->data->on_bad_sample, "fail") == 0)
        return cs_fail(err, CS_INVALID, "%s: sample %llu (id \"%.60s\"): %s",
                       cs_source_path(set->source), (unsigned long long)load->index, id,
                       load->reason);
    (void)cs_str_copy(reason, sizeof(reason), load->reason);
    /* a full disk must not end the training: the message tells what the file cannot */
    if (cs_quarantine_add(set->quarantine, load, &is_new, &why) != CS_OK)
        (void)snprintf(reason, sizeof(reason), "%.900s (not listed: %.900s)", load->reason,
                       why.text);
    if (!is_new)
        return CS_OK;
    msg = cs_msg_new("feeder.bad");
    cs_msg_set_str(msg, "id", id);
    cs_msg_set_str(msg, "reason", reason);
    cs_msg_set_str(msg, "file", cs_source_path(set->source));
    cs_msg_set_int(msg, "index", (int64_t)load->index);
    config->send(config->user, msg);
    if ((double)cs_quarantine_count(set->quarantine) > allowed)
        return cs_fail(
            err, CS_INVALID,
            "%s: %llu of %llu samples %s bad, max_bad_fraction %g allows %g; the last: "
            "sample %llu (id \"%.60s\"): %s",
            cs_source_path(set->source), (unsigned long long)cs_quarantine_count(set->quarantine),
            (unsigned long long)cs_source_count(set->source),
            CS_NOUN(cs_quarantine_count(set->quarantine), "is", "are"), set->data->max_bad_fraction,
            allowed, (unsigned long long)load->index, id, load->reason);
    return CS_OK;
}

/* A set of which nothing can be used is refused before any step, and one that has nothing for one
 * of the encoders. */
static enum cs_status probe(const struct cs_feed_set *set, bool is_training, struct cs_err *err)
{
    const struct cs_early_depth depth = {.n_pictures = CS_EARLY_SAMPLES, .is_one_enough = true};
    struct cs_early early;

    CS_TRY(cs_early_samples(set->source, &depth, NULL, &early, err));
    return is_training ? cs_early_items(set->source, true, NULL, err) : CS_OK;
}

enum cs_status cs_feed_set_open(const struct cs_feeder_config *config,
                                const struct cs_spec_data *data, const char *name,
                                struct cs_feed_set *out, struct cs_err *err)
{
    const struct cs_source_options options = {
        .budget = config->budget, .cache_bytes = config->cache_bytes, .has_disk_cache = true};
    char path[CS_PATH_CAP];

    out->config = config;
    out->data = data;
    CS_TRY(cs_source_open(config->spec, config->graph, data, &options, &out->source, err));
    CS_TRY(cs_path(path, err, "%s/quarantine.jsonl", config->job_dir));
    CS_TRY(cs_quarantine_open(path, name, out->source, &out->quarantine, err));
    return probe(out, data == &config->spec->data, err);
}

void cs_feed_set_close(struct cs_feed_set *set)
{
    cs_quarantine_close(set->quarantine);
    cs_source_close(set->source);
}

void cs_feed_set_report(const struct cs_feed_set *set)
{
    struct cs_disk_cache_use use;
    struct cs_buf line = {0};

    if (set->source == NULL || !cs_source_disk_cache(set->source, &use))
        return;
    cs_disk_cache_text(&use, &line);
    fprintf(stderr, "cache of decoded media: %s\n", cs_buf_str(&line));
    cs_buf_free(&line);
}
