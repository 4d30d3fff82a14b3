/* Takes values of a processor's document, else of its class. */
#include "input/media/processor_values.h"

#include <stdio.h>
#include <string.h>

#define LARGEST 1e6

/* NULL: neither the document nor the class says it. */
const json_t *cs_processor_value(const struct cs_processor_reader *r, const char *key)
{
    char path[256], shown[CS_DOC_SHOWN];
    const json_t *value = cs_doc_get(r->doc->json, key, NULL);
    const json_t *fallback = json_object_get(r->defaults, key);

    if (value != NULL || fallback == NULL)
        return value;
    snprintf(path, sizeof path, "%s%s%s", r->doc->where, r->doc->where[0] != '\0' ? "." : "", key);
    cs_findings_say(r->findings, CS_FINDING_DEFAULT, r->doc->name, path, NULL,
                    "%s is not given: %s, the default of %s", path, cs_doc_show(fallback, shown),
                    r->row->name);
    return fallback;
}

bool cs_processor_flag(const struct cs_processor_reader *r, const char *key)
{
    return json_is_true(cs_processor_value(r, key));
}

/* One number is that of all three channels. Pixels become finite numbers of float with them. */
static enum cs_status read_triple(const struct cs_processor_reader *r, const char *key,
                                  bool is_positive, double out[3])
{
    char shown[CS_DOC_SHOWN];
    const json_t *value = cs_processor_value(r, key);
    bool is_list = json_is_array(value);
    for (size_t i = 0; i < 3; i++) {
        const json_t *x = is_list ? json_array_get(value, i) : value;
        const double number = json_number_value(x);
        if (!json_is_number(x) || (is_list && json_array_size(value) != 3) ||
            !(number <= LARGEST && number >= (is_positive ? 1 / LARGEST : -LARGEST)))
            return cs_fail(r->err, CS_INVALID, "%s: %s is %s; it must be a list of three numbers%s",
                           r->doc->name, key, cs_doc_show(value, shown),
                           is_positive ? " above 0" : "");
        out[i] = number;
    }
    return CS_OK;
}

enum cs_status cs_processor_read_colours(const struct cs_processor_reader *r,
                                         struct cs_processor *out)
{
    double mean[3], std[3];
    out->rescale = 1.0;
    if (cs_processor_flag(r, "do_rescale"))
        out->rescale = json_number_value(cs_processor_value(r, "rescale_factor"));
    CS_TRY(read_triple(r, "image_mean", false, mean));
    CS_TRY(read_triple(r, "image_std", true, std));
    const bool is_normalised = cs_processor_flag(r, "do_normalize");
    for (int i = 0; i < 3; i++) {
        const double ground = mean[i] * 255;
        out->mean[i] = is_normalised ? (float)mean[i] : 0.0f;
        out->std[i] = is_normalised ? (float)std[i] : 1.0f;
        if (out->pads_square && !(ground > -1 && ground < 256))
            return cs_fail(r->err, CS_INVALID,
                           "%s: image_mean[%d] is %g; pictures are padded with it, so it must be a "
                           "colour, 0 to 1",
                           r->doc->name, i, mean[i]);
        out->ground[i] = out->pads_square ? (uint8_t)ground : 0;
    }
    return CS_OK;
}

static int32_t side_of(const json_t *object, const char *key)
{
    return (int32_t)json_integer_value(cs_doc_get(object, key, NULL));
}

/* A number is a square or a shortest edge, two are height and width. */
enum cs_status cs_processor_read_size(const struct cs_processor_reader *r, const char *key,
                                      bool is_square, struct cs_processor_size *out)
{
    const json_t *value = cs_processor_value(r, key);
    const json_t *high = json_is_array(value) ? json_array_get(value, 0) : value;
    const json_t *wide = json_is_array(value) ? json_array_get(value, 1) : value;
    char shown[CS_DOC_SHOWN];

    *out = (struct cs_processor_size){0};
    if (value == NULL)
        return CS_OK;
    if (json_is_object(value)) {
        *out = (struct cs_processor_size){
            side_of(value, "height"),        side_of(value, "width"),
            side_of(value, "shortest_edge"), side_of(value, "longest_edge"),
            side_of(value, "max_height"),    side_of(value, "max_width")};
    } else if (!json_is_integer(high) || !json_is_integer(wide) || json_integer_value(high) < 1 ||
               json_integer_value(wide) < 1 || json_integer_value(high) > CS_PROCESSOR_SIDE_MAX ||
               json_integer_value(wide) > CS_PROCESSOR_SIDE_MAX ||
               (json_is_array(value) && json_array_size(value) != 2)) {
        return cs_fail(r->err, CS_INVALID,
                       "%s: %s is %s; it must be an object, a side or [height, width], 1 to %d",
                       r->doc->name, key, cs_doc_show(value, shown), CS_PROCESSOR_SIDE_MAX);
    } else if (json_is_array(value) || is_square) {
        out->height = (int32_t)json_integer_value(high);
        out->width = (int32_t)json_integer_value(wide);
    } else {
        out->shortest_edge = (int32_t)json_integer_value(value);
    }
    if ((out->height > 0) != (out->width > 0) || (out->max_height > 0) != (out->max_width > 0))
        return cs_fail(r->err, CS_INVALID, "%s: %s has no %s%s", r->doc->name, key,
                       out->height > 0 || out->width > 0 ? "" : "max_",
                       out->height > 0 || out->max_height > 0 ? "width" : "height");
    if ((out->height > 0) + (out->max_height > 0) +
            (out->shortest_edge > 0 || out->longest_edge > 0) >
        1)
        return cs_fail(r->err, CS_INVALID, "%s: %s is %s; it must say one kind of size",
                       r->doc->name, key, cs_doc_show(value, shown));
    return CS_OK;
}

/* Numbers that are taken as they are, by the classes that read them. */
static const struct {
    const char *key;
    size_t at;
} numbers[] = {
    {"merge_size",                 offsetof(struct cs_processor, merge)      },
    {"temporal_patch_size",        offsetof(struct cs_processor, frames)     },
    {"max_num_patches",            offsetof(struct cs_processor, max_patches)},
    {"max_soft_tokens",            offsetof(struct cs_processor, max_patches)},
    {"pooling_kernel_size",        offsetof(struct cs_processor, merge)      },
    {"min_patches",                offsetof(struct cs_processor, min_tiles)  },
    {"max_patches",                offsetof(struct cs_processor, max_tiles)  },
    {"pan_and_scan_min_crop_size", offsetof(struct cs_processor, pan_side)   },
    {"pan_and_scan_max_num_crops", offsetof(struct cs_processor, pan_crops)  },
};

enum cs_status cs_processor_read_numbers(const struct cs_processor_reader *r,
                                         struct cs_processor *out)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(numbers); i++)
        if (cs_processor_class_reads(r->row, numbers[i].key)) {
            const int32_t value =
                (int32_t)json_integer_value(cs_processor_value(r, numbers[i].key));
            memcpy((char *)out + numbers[i].at, &value, sizeof value);
        }
    if (!cs_processor_class_reads(r->row, "patch_size"))
        return CS_OK;
    const json_t *patch = cs_processor_value(r, "patch_size");
    out->patch =
        json_is_object(patch) ? side_of(patch, "height") : (int32_t)json_integer_value(patch);
    if (json_is_object(patch) && (out->patch == 0 || side_of(patch, "width") != out->patch))
        return cs_fail(r->err, CS_UNSUPPORTED, "%s: patch_size must be a square", r->doc->name);
    return CS_OK;
}

enum cs_status cs_processor_read_pins(const struct cs_processor_reader *r, struct cs_processor *out)
{
    const json_t *list = cs_processor_value(r, "image_grid_pinpoints"), *pair = NULL;
    size_t i = 0;

    if (json_array_size(list) < 1 || json_array_size(list) > CS_PROCESSOR_PINS)
        return cs_fail(r->err, CS_INVALID, "%s: image_grid_pinpoints has %zu sizes, 1 to %d can be",
                       r->doc->name, json_array_size(list), CS_PROCESSOR_PINS);
    json_array_foreach(list, i, pair) for (size_t k = 0; k < 2; k++)
    {
        const json_int_t side = json_integer_value(json_array_get(pair, k));
        if (json_array_size(pair) != 2 || side < 1 || side > CS_PROCESSOR_SIDE_MAX)
            return cs_fail(r->err, CS_INVALID,
                           "%s: image_grid_pinpoints[%zu] must be [height, width], 1 to %d",
                           r->doc->name, i, CS_PROCESSOR_SIDE_MAX);
        out->pin[i][k] = (int32_t)side;
    }
    out->n_pins = (int32_t)json_array_size(list);
    return CS_OK;
}
