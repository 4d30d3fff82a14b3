/* Shows findings. */
#include "console/preflight/findings.h"

#include "core/base/units.h"
#include "core/wire/wire.h"

void cs_findings_add_script(struct cs_findings *findings, const json_t *defaults)
{
    const char *function, *key;
    json_t *mine, *value;
    json_object_foreach((json_t *)(uintptr_t)defaults, function, mine)
        json_object_foreach(mine, key, value)
            cs_findings_say(findings, CS_FINDING_DEFAULT, function, key, NULL,
                            "%s is not given: %s", key, json_string_value(value));
}

static bool is_default(const struct cs_finding *found)
{
    return found->kind == CS_FINDING_DEFAULT;
}

static void add_lines(const struct cs_findings *findings, bool defaults, const char *head,
                      struct cs_buf *out)
{
    bool is_first = true;
    for (int i = 0; i < findings->n; i++) {
        const struct cs_finding *found = &findings->items[i];
        if (is_default(found) != defaults)
            continue;
        if (is_first)
            cs_buf_adds(out, head);
        is_first = false;
        cs_buf_addf(out, defaults ? "  %s" : "warning: %s", found->text);
        if (found->n > 1)
            cs_buf_addf(out, " (%lld times)", (long long)found->n);
        cs_buf_addc(out, '\n');
    }
}

void cs_findings_text(const struct cs_findings *findings, bool with_defaults, struct cs_buf *out)
{
    add_lines(findings, false, "", out);
    if (findings->n_left_out > 0)
        cs_buf_addf(out, "warning: %lld more %s left out\n", (long long)findings->n_left_out,
                    CS_NOUN(findings->n_left_out, "finding is", "findings are"));
    if (with_defaults)
        add_lines(findings, true, "\nneither the script nor a directory says:\n", out);
}

json_t *cs_findings_json(const struct cs_findings *findings, bool with_defaults)
{
    json_t *list = json_array();
    for (int i = 0; i < findings->n; i++) {
        const struct cs_finding *found = &findings->items[i];
        if (is_default(found) && !with_defaults)
            continue;
        json_t *row = json_object();
        cs_msg_set_str(row, "kind", cs_finding_kind_name(found->kind));
        cs_msg_set_str(row, "document", found->document);
        cs_msg_set_str(row, "path", found->path);
        cs_msg_set_str(row, "text", found->text);
        cs_msg_set_int(row, "count", found->n);
        json_array_append_new(list, row);
    }
    return list;
}
