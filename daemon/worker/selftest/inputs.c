/* What a golden's inputs may be: those that are read, or say what a slot says by itself. */
#include <string.h>

#include "worker/selftest/parts.h"

enum hides { HIDES_ANY, HIDES_NOTHING, HIDES_END };

static const struct input {
    const char *name;
    enum hides hides; /* of a mask: which elements may be 0 */
} inputs[] = {
    {"in.ids",                    HIDES_ANY    },
    {"in.labels",                 HIDES_ANY    },
    {"in.probe",                  HIDES_ANY    },
    {"in.x",                      HIDES_ANY    },
    {"in.sizes",                  HIDES_ANY    },
    {"in.grid",                   HIDES_ANY    },
    {"in.shapes",                 HIDES_ANY    },
    {"in.mask",                   HIDES_ANY    }, /* of patches: in.shapes says it */
    {"in.image_sizes",            HIDES_ANY    },
    {"in.image_grid_thw",         HIDES_ANY    },
    {"in.image_position_ids",     HIDES_ANY    },
    {"in.pixel_values_videos",    HIDES_ANY    },
    {"in.video_grid_thw",         HIDES_ANY    },
    {"in.feature_attention_mask", HIDES_ANY    },
    {"in.positions",              HIDES_ANY    },
    {"in.mm_token_type_ids",      HIDES_ANY    },
    {"in.token_type_ids",         HIDES_ANY    },
    {"in.attention_mask",         HIDES_END    },
    {"in.pixel_attention_mask",   HIDES_NOTHING},
};

static const struct input *input_named(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(inputs); i++)
        if (strcmp(inputs[i].name, name) == 0)
            return &inputs[i];
    return NULL;
}

static enum cs_status check_mask(const struct cs_golden *g, const struct cs_st_tensor *t,
                                 enum hides hides, struct cs_err *err)
{
    int64_t *is_seen, count;
    const int64_t last = t->dim[t->n_dims - 1];
    CS_TRY(cs_golden_ints(g, t->name, &is_seen, &count, err));
    for (int64_t i = 0; i < count; i++) {
        const bool is_end = i % last + 1 == last || is_seen[i + 1] == 0;
        if (is_seen[i] != 0 || (hides == HIDES_END && is_end))
            continue;
        return cs_fail(err, CS_UNSUPPORTED, "%s: %s hides element %lld: %s", cs_st_path(g->file),
                       t->name, (long long)i,
                       hides == HIDES_END ? "only rows behind all others can be hidden"
                                          : "parts of pictures cannot be hidden");
    }
    return CS_OK;
}

enum cs_status cs_golden_check_inputs(const struct cs_golden *g, struct cs_err *err)
{
    for (int i = 0; i < cs_st_count(g->file); i++) {
        const struct cs_st_tensor *t = cs_st_at(g->file, i);
        const struct input *input = input_named(t->name);
        if (strncmp(t->name, "in.", 3) != 0)
            continue;
        if (input == NULL)
            return cs_fail(err, CS_UNSUPPORTED, "%s: input %s is not known", cs_st_path(g->file),
                           t->name);
        if (input->hides != HIDES_ANY && t->n_dims > 0)
            CS_TRY(check_mask(g, t, input->hides, err));
    }
    return CS_OK;
}
