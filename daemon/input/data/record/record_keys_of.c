/* The keys of the encoders of a job, and those of one for people. */
#include <string.h>

#include "input/data/record/record_keys.h"
#include "input/media/sound/features.h"

enum cs_status cs_record_keys_of(const struct cs_graph *graph, struct cs_arena *arena,
                                 struct cs_record_keys **out, struct cs_err *err)
{
    struct cs_record_encoder encoder[CS_MAX_ENCODERS];

    for (int e = 0; e < graph->n_encoders; e++) {
        const struct cs_module *module = cs_graph_encoder(graph, e);
        if (module->spec->token == NULL || module->spec->token[0] == '\0')
            return cs_fail(err, CS_INVALID, "module %s has no placeholder token", module->name);
        enum cs_sound_family family;
        encoder[e] = (struct cs_record_encoder){
            graph->branches[module->branch].name, module->spec->token, module->spec->key,
            cs_sound_family_find(module->arch.family, &family), module->spec->video != NULL};
    }
    return cs_record_keys_new(encoder, graph->n_encoders, arena, out, err);
}

void cs_record_keys_text(const struct cs_record_keys *keys, int encoder, struct cs_buf *out)
{
    for (const char *at = keys->encoder[encoder].said; *at != '\0';) {
        size_t n = strcspn(at, "|");
        cs_buf_addf(out, "%s\"%.*s\"", at == keys->encoder[encoder].said ? "" : " or ", (int)n, at);
        at += n + (at[n] == '|');
    }
}
