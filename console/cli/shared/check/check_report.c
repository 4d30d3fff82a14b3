/* Writes the counts of a data set: encoders, what is left out and why, the longest and largest. */
#include "console/cli/shared/check/check_report.h"

#include <string.h>

#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/wire.h"

enum { SHOWN_LONGEST = 3 };

static json_t *largest_of(const struct cs_check_media *m)
{
    json_t *largest = json_object();
    if (m->largest.rows == 0) {
        json_decref(largest);
        return json_null();
    }
    cs_msg_set_str(largest, "file", m->largest.name);
    cs_msg_set_int(largest, "index", (int64_t)m->largest.index);
    cs_msg_set_int(largest, "width", m->largest.width);
    cs_msg_set_int(largest, "height", m->largest.height);
    cs_msg_set_int(largest, "rows", m->largest.rows);
    return largest;
}

static json_t *encoders_of(const struct cs_check *check, const struct cs_record_keys *keys)
{
    json_t *rows = json_array();
    for (int e = 0; e < keys->n; e++) {
        json_t *row = json_object();
        cs_msg_set_str(row, "name", keys->encoder[e].name);
        cs_msg_set_str(row, "placeholder", keys->encoder[e].token);
        cs_msg_set_str(row, "keys", keys->encoder[e].said);
        const struct cs_check_media *m = &check->media[e];
        cs_msg_set_int(row, "items", m->n_items);
        cs_msg_set_int(row, "files", m->n_files);
        cs_msg_set_int(row, "rows", m->n_rows);
        cs_msg_set_int(row, "patches", m->n_patches);
        cs_msg_set(row, "largest", largest_of(m));
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *unknown_of(const struct cs_findings *findings)
{
    json_t *rows = json_array();
    for (int i = 0; i < findings->n; i++) {
        const struct cs_finding *f = &findings->items[i];
        if (f->kind != CS_FINDING_UNKNOWN)
            continue;
        json_t *row = json_object();
        cs_msg_set_str(row, "key", f->path);
        cs_msg_set_int(row, "count", f->n);
        cs_msg_set_str(row, "text", f->text);
        json_array_append_new(rows, row);
    }
    return rows;
}

static json_t *reasons_of(const struct cs_check *check)
{
    json_t *reasons = json_array();
    for (int i = 0; i < check->n_reasons; i++) {
        json_t *row = json_object(), *examples = json_array();
        cs_msg_set_str(row, "text", check->reasons[i].text);
        cs_msg_set_int(row, "count", (int64_t)check->reasons[i].count);
        for (int k = 0; k < check->reasons[i].n_examples; k++)
            json_array_append_new(examples, json_integer((json_int_t)check->reasons[i].example[k]));
        cs_msg_set(row, "examples", examples);
        json_array_append_new(reasons, row);
    }
    return reasons;
}

static json_t *cache_of(const struct cs_source *source)
{
    struct cs_disk_cache_use use;
    json_t *o = NULL;
    if (!cs_source_disk_cache(source, &use))
        return json_null();
    o = json_object();
    cs_msg_set_int(o, "found", (int64_t)use.n_found);
    cs_msg_set_int(o, "added", (int64_t)use.n_kept);
    cs_msg_set_int(o, "bytes", (int64_t)use.bytes);
    cs_msg_set_int(o, "max_bytes", (int64_t)use.max_bytes);
    return o;
}

json_t *cs_check_report(const char *use, const struct cs_source *source,
                        const struct cs_check *check)
{
    json_t *o = json_object();
    cs_msg_set_str(o, "use", use);
    cs_msg_set_str(o, "path", cs_source_path(source));
    cs_msg_set_int(o, "samples", (int64_t)check->n_samples);
    cs_msg_set_int(o, "good", (int64_t)check->n_good);
    cs_msg_set_int(o, "bad", (int64_t)check->n_bad);
    cs_msg_set_int(o, "tokens", check->n_tokens);
    cs_msg_set_int(o, "trained_tokens", check->n_labels);
    cs_msg_set(o, "encoders", encoders_of(check, cs_source_keys(source)));
    cs_msg_set_int(o, "too_long", (int64_t)check->n_too_long);
    cs_msg_set_int(o, "too_large", (int64_t)check->n_too_large);
    cs_msg_set_int(o, "untrained", (int64_t)check->n_untrained);
    cs_msg_set_int(o, "shortest", check->shortest_rows);
    cs_msg_set_int(o, "longest", check->longest_rows);
    cs_msg_set_int(o, "saturated_pictures", check->n_saturated);
    cs_msg_set_int(o, "cut_sounds", check->n_cut);
    cs_msg_set(o, "cache", cache_of(source));
    cs_msg_set(o, "unknown_keys", unknown_of(&check->findings));
    cs_msg_set(o, "reasons", reasons_of(check));
    return o;
}

static void print_encoder(struct cs_buf *text, const struct cs_check_media *m,
                          const struct cs_record_keys *keys, int e)
{
    cs_buf_addf(text, "  %-8s %lld item%s", keys->encoder[e].name, (long long)m->n_items,
                CS_PLURAL(m->n_items));
    if (m->n_items != m->n_files)
        cs_buf_addf(text, " of %lld file%s", (long long)m->n_files, CS_PLURAL(m->n_files));
    if (m->n_files > 0)
        cs_buf_addf(text, ", %lld row%s", (long long)m->n_rows, CS_PLURAL(m->n_rows));
    cs_buf_adds(text, ", from the keys ");
    cs_record_keys_text(keys, e, text);
    cs_buf_addf(text, " (placeholder %s)\n", keys->encoder[e].token);
    if (m->largest.width == 0)
        return;
    cs_buf_adds(text, "  largest  ");
    cs_str_escape(text, m->largest.name, strlen(m->largest.name), false);
    cs_buf_addf(text, " of sample %llu: %d x %d pixels, %d row%s\n",
                (unsigned long long)m->largest.index, m->largest.width, m->largest.height,
                m->largest.rows, CS_PLURAL(m->largest.rows));
}

static void print_longest(struct cs_buf *text, const struct cs_check *check)
{
    for (int i = 0; i < check->n_longest && i < SHOWN_LONGEST; i++)
        cs_buf_addf(text, "%s %d (sample %llu)", i == 0 ? "  longest " : ",",
                    check->longest[i].tokens, (unsigned long long)check->longest[i].index);
    if (check->n_longest > 0)
        cs_buf_adds(text, "\n");
}

static void print_numbers(struct cs_buf *text, const struct cs_check *check,
                          const struct cs_record_keys *keys, int32_t seq_tokens, int32_t positions)
{
    cs_buf_addf(text, "  samples  %llu good, %llu bad\n", (unsigned long long)check->n_good,
                (unsigned long long)check->n_bad);
    cs_buf_addf(text, "  tokens   %lld, %lld of them trained\n", (long long)check->n_tokens,
                (long long)check->n_labels);
    for (int e = 0; e < keys->n; e++)
        print_encoder(text, &check->media[e], keys, e);
    if (check->n_too_long > 0)
        cs_buf_addf(text,
                    "  too long %llu: more rows than seq_tokens = %d; the longest takes %lld, the "
                    "shortest %lld\n",
                    (unsigned long long)check->n_too_long, seq_tokens,
                    (long long)check->longest_rows, (long long)check->shortest_rows);
    if (check->n_too_large > 0)
        cs_buf_addf(text,
                    "  too large %llu: more items, rows or patches of an encoder than a slot has "
                    "room for (plan.encoder_rows)\n",
                    (unsigned long long)check->n_too_large);
    if (check->n_untrained > 0)
        cs_buf_addf(text, "  untrained %llu: no token of them trains\n",
                    (unsigned long long)check->n_untrained);
    if (check->n_saturated > 0)
        cs_buf_addf(text,
                    "  note     %lld %s gray with 16 bits: every value over 255 becomes "
                    "white, as in transformers; convert them to 8 bits where they are to be seen\n",
                    (long long)check->n_saturated,
                    CS_NOUN(check->n_saturated, "picture is", "pictures are"));
    if (check->n_cut > 0)
        cs_buf_addf(text,
                    "  note     %lld %s longer than the encoder takes: what is behind is "
                    "left away, as in transformers; cut what is too long into several\n",
                    (long long)check->n_cut, CS_NOUN(check->n_cut, "sound is", "sounds are"));
    print_longest(text, check);
    if (positions > 0 && check->n_longest > 0 && check->longest[0].tokens > positions)
        cs_buf_addf(text,
                    "  note     llm is made for %d positions (max_position_embeddings), and the "
                    "longest sample takes more\n",
                    positions);
    for (int i = 0; i < CS_CHECK_BINS; i++)
        if (check->bins[i])
            cs_buf_addf(text, "  %6d to %-6d tokens: %llu sample%s\n", 1 << i, (2 << i) - 1,
                        (unsigned long long)check->bins[i], CS_PLURAL(check->bins[i]));
}

static void print_unknown(struct cs_buf *text, const struct cs_findings *findings)
{
    for (int i = 0; i < findings->n; i++)
        if (findings->items[i].kind == CS_FINDING_UNKNOWN)
            cs_buf_addf(text, "  unknown %lldx: %s\n", (long long)findings->items[i].n,
                        findings->items[i].text);
    if (findings->n_left_out > 0)
        cs_buf_addf(text, "  and %lld more\n", (long long)findings->n_left_out);
}

static void print_reasons(struct cs_buf *text, const struct cs_check *check)
{
    for (int i = 0; i < check->n_reasons; i++) {
        const struct cs_check_reason *r = &check->reasons[i];
        cs_buf_addf(text, "  bad %llux: ", (unsigned long long)r->count);
        cs_str_escape(text, r->text, strlen(r->text), false);
        cs_buf_adds(text, " (samples");
        for (int k = 0; k < r->n_examples; k++)
            cs_buf_addf(text, "%s %llu", k ? "," : "", (unsigned long long)r->example[k]);
        cs_buf_adds(text, r->count > (uint64_t)r->n_examples ? ", ...)\n" : ")\n");
    }
}

static void print_cache(struct cs_buf *text, const struct cs_source *source)
{
    struct cs_disk_cache_use use;
    if (!cs_source_disk_cache(source, &use))
        return;
    cs_buf_addf(text, "  cache    ");
    cs_disk_cache_text(&use, text);
    cs_buf_addf(text, "\n");
}

void cs_check_text(const char *use, const struct cs_source *source, int32_t seq_tokens,
                   int32_t positions, const struct cs_check *check, struct cs_buf *out)
{
    cs_buf_addf(out, "%s %s\n", use, cs_source_path(source));
    print_numbers(out, check, cs_source_keys(source), seq_tokens, positions);
    print_cache(out, source);
    print_unknown(out, &check->findings);
    print_reasons(out, check);
}
