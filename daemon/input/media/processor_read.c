/* Reads preprocessor_config.json: the class, what all read, and then what its kind makes of the
 * sizes. */
#include <stdio.h>
#include <string.h>

#include "input/media/processor_values.h"

static enum cs_status refuse_size(const struct cs_processor_reader *r, const char *needs)
{
    char shown[CS_DOC_SHOWN];

    return cs_fail(r->err, CS_UNSUPPORTED, "%s: size is %s; for %s it must be %s", r->doc->name,
                   cs_doc_show(cs_processor_value(r, "size"), shown), r->row->name, needs);
}

static enum cs_status read_plain(const struct cs_processor_reader *r, struct cs_processor *out)
{
    const bool pads = cs_processor_flag(r, "do_pad");
    const struct cs_processor_size *last = &out->size;

    out->pads_square = pads && r->row->pads_square;
    if (cs_processor_flag(r, "do_center_crop"))
        CS_TRY(cs_processor_read_size(r, "crop_size", true, &out->crop));
    if (pads && !out->pads_square)
        CS_TRY(cs_processor_read_size(r, "pad_size", true, &out->pad));
    last = out->pad.height > 0 ? &out->pad : out->crop.height > 0 ? &out->crop : last;
    if (out->size.longest_edge > 0 && out->size.shortest_edge == 0)
        return refuse_size(r, "{height, width}, or {shortest_edge} with do_center_crop");
    if (last == &out->size && out->pads_square && last->shortest_edge > 0) {
        out->height = out->width = last->shortest_edge; /* of a square both sides are */
        return CS_OK;
    }
    if (last->height == 0)
        return refuse_size(r, "{height, width}, or {shortest_edge} with do_center_crop: else "
                              "pictures would be of different sizes");
    out->height = last->height;
    out->width = last->width;
    return CS_OK;
}

static enum cs_status read_smart(const struct cs_processor_reader *r, struct cs_processor *out)
{
    const json_t *min = cs_doc_get(r->doc->json, "min_pixels", NULL);
    const json_t *max = cs_doc_get(r->doc->json, "max_pixels", NULL);

    out->min_pixels = min != NULL ? json_integer_value(min) : out->size.shortest_edge;
    out->max_pixels = max != NULL ? json_integer_value(max) : out->size.longest_edge;
    if (out->min_pixels == 0 || out->max_pixels == 0)
        return refuse_size(r, "{shortest_edge, longest_edge}, numbers of pixels");
    if (out->min_pixels > out->max_pixels)
        return cs_fail(r->err, CS_INVALID, "%s: min_pixels is %lld, over max_pixels, %lld",
                       r->doc->name, (long long)out->min_pixels, (long long)out->max_pixels);
    return CS_OK;
}

static enum cs_status read_within(const struct cs_processor_reader *r, struct cs_processor *out)
{
    return (out->size.longest_edge > 0 && out->size.shortest_edge == 0) || out->size.height > 0
               ? CS_OK
               : refuse_size(r, "{longest_edge} or {height, width}");
}

/* BUDGET and POOLED know no sizes. */
static enum cs_status read_nothing(const struct cs_processor_reader *r, struct cs_processor *out)
{
    (void)r;
    (void)out;
    return CS_OK;
}

static enum cs_status read_one_size(const struct cs_processor_reader *r, struct cs_processor *out)
{
    out->height = out->size.height;
    out->width = out->size.width;
    return out->height > 0 ? CS_OK : refuse_size(r, "{height, width}");
}

/* What the joint processor of a model asks its image processor for, whatever the document says. */
static bool is_called_by(const struct cs_processor_reader *r, const char *name, const char *key,
                         bool value)
{
    const char *caller = json_string_value(cs_doc_get(r->doc->json, "processor_class", NULL));
    const json_t *said = cs_doc_get(r->doc->json, key, NULL);

    if (caller == NULL || strcmp(caller, name) != 0)
        return false;
    if (said != NULL && json_is_true(said) != value)
        cs_findings_say(r->findings, CS_FINDING_SHADOWED, r->doc->name, key, said,
                        "%s is not used: %s always asks for %s", key, name,
                        value ? "true" : "false");
    return true;
}

static enum cs_status read_tiles(const struct cs_processor_reader *r, struct cs_processor *out)
{
    out->is_cut = is_called_by(r, "InternVLProcessor", "crop_to_patches", true) ||
                  cs_processor_flag(r, "crop_to_patches");
    if (out->min_tiles > out->max_tiles)
        return cs_fail(r->err, CS_INVALID, "%s: min_patches is %d, over max_patches, %d",
                       r->doc->name, out->min_tiles, out->max_tiles);
    return read_one_size(r, out);
}

static enum cs_status read_pan(const struct cs_processor_reader *r, struct cs_processor *out)
{
    out->is_cut = !is_called_by(r, "Gemma3Processor", "do_pan_and_scan", false) &&
                  cs_processor_flag(r, "do_pan_and_scan");
    out->pan_ratio = json_number_value(cs_processor_value(r, "pan_and_scan_min_ratio_to_activate"));
    return read_one_size(r, out);
}

static enum cs_status read_anyres(const struct cs_processor_reader *r, struct cs_processor *out)
{
    struct cs_processor_size crop;

    out->pads_square = r->row->pads_square;
    out->mosaic_tiles = out->pads_square ? 9 : 0; /* "anyres_max_9" */
    CS_TRY(cs_processor_read_size(r, "crop_size", true, &crop));
    if (cs_processor_flag(r, "do_center_crop"))
        out->crop = crop;
    out->height = crop.height > 0        ? crop.height
                  : out->size.height > 0 ? out->size.height
                                         : out->size.shortest_edge;
    out->width = out->height;
    if ((out->size.height > 0 && out->size.height != out->size.width) ||
        (crop.height > 0 && crop.height != crop.width) || out->height == 0 ||
        out->size.longest_edge > 0)
        return refuse_size(r, "a square {height, width} or {shortest_edge}");
    return cs_processor_read_pins(r, out);
}

static enum cs_status read_split(const struct cs_processor_reader *r, struct cs_processor *out)
{
    struct cs_processor_size tile;

    out->is_cut = cs_processor_flag(r, "do_image_splitting");
    CS_TRY(cs_processor_read_size(r, "max_image_size", true, &tile));
    out->height = out->width = tile.longest_edge;
    if (tile.longest_edge == 0)
        return cs_fail(r->err, CS_UNSUPPORTED, "%s: max_image_size must be {longest_edge}",
                       r->doc->name);
    return read_within(r, out);
}

static enum cs_status (*const readers[])(const struct cs_processor_reader *,
                                         struct cs_processor *) = {
    [CS_PROCESSOR_PLAIN] = read_plain,    [CS_PROCESSOR_SMART] = read_smart,
    [CS_PROCESSOR_WITHIN] = read_within,  [CS_PROCESSOR_BUDGET] = read_nothing,
    [CS_PROCESSOR_POOLED] = read_nothing, [CS_PROCESSOR_TILES] = read_tiles,
    [CS_PROCESSOR_PAN] = read_pan,        [CS_PROCESSOR_ANYRES] = read_anyres,
    [CS_PROCESSOR_SPLIT] = read_split,
};

_Static_assert(CS_ARRAY_LEN(readers) == CS_PROCESSOR_KINDS, "a reader for each kind");

/* Keys of other classes change nothing here. */
static void say_unread(const struct cs_processor_reader *r)
{
    static const char all[] =
        "image_processor_type|feature_extractor_type|processor_class|resample|do_resize|do_rescale|"
        "rescale_factor|do_normalize|image_mean|image_std|default_to_square";
    const char *key = NULL;
    json_t *value = NULL;

    json_object_foreach((json_t *)(uintptr_t)r->doc->json, key, value)
    {
        const struct cs_doc_key *row = cs_doc_find(cs_processor_keys(), key);
        if (row != NULL && row->use == CS_DOC_USED && !cs_doc_is_word(all, key) &&
            !cs_processor_class_reads(r->row, key) && cs_doc_says(value) && !json_is_false(value))
            cs_findings_say(r->findings, CS_FINDING_UNKNOWN, r->doc->name, key, value,
                            "%s is a key that %s does not read", key, r->row->name);
    }
}

static enum cs_status read_all(const struct cs_processor_reader *r, struct cs_processor *out)
{
    const json_t *square = cs_doc_get(r->doc->json, "default_to_square", NULL);
    const int32_t most = CS_PROCESSOR_SIDE_MAX;

    *out = (struct cs_processor){
        .kind = r->row->kind, .name = r->row->name, .channels = 3, .merge = 1, .frames = 1};
    if (cs_processor_class_reads(r->row, "size"))
        CS_TRY(cs_processor_read_size(
            r, "size", square != NULL ? json_is_true(square) : r->row->is_square, &out->size));
    if (r->row->kind != CS_PROCESSOR_SMART &&
        (out->size.shortest_edge > most || out->size.longest_edge > most))
        return cs_fail(r->err, CS_INVALID, "%s: size is over %d", r->doc->name, most);
    out->do_resize = cs_processor_flag(r, "do_resize");
    out->resample = (enum cs_resample)json_integer_value(cs_processor_value(r, "resample"));
    CS_TRY(cs_processor_read_numbers(r, out));
    CS_TRY(readers[r->row->kind](r, out));
    return cs_processor_read_colours(r, out);
}

enum cs_status cs_processor_read_doc(const struct cs_doc *doc, struct cs_findings *findings,
                                     struct cs_processor *out, struct cs_err *err)
{
    struct cs_processor_reader r = {.doc = doc, .findings = findings, .err = err};
    struct cs_doc known = *doc;
    char names[600];

    *out = (struct cs_processor){0};
    known.table = cs_processor_keys();
    CS_TRY(cs_doc_review(&known, findings, err));
    const json_t *name = cs_doc_get(doc->json, "image_processor_type|feature_extractor_type", NULL);
    if (name == NULL)
        return cs_fail(err, CS_INVALID, "%s: image_processor_type is missing", doc->name);
    r.row = cs_processor_class_find(json_string_value(name));
    if (r.row == NULL) {
        cs_processor_class_names(names, sizeof names);
        return cs_fail(err, CS_UNSUPPORTED,
                       "%s: image_processor_type %.80s is not known; those that are: %s", doc->name,
                       json_string_value(name), names);
    }
    r.defaults = json_loads(r.row->defaults, 0, NULL);
    if (r.defaults == NULL)
        return cs_fail(err, CS_NO_MEMORY, "%s: no memory to read it", doc->name);
    say_unread(&r);
    enum cs_status status = read_all(&r, out);
    json_decref(r.defaults);
    return status;
}

enum cs_status cs_processor_read(const json_t *config, struct cs_processor *out, struct cs_err *err)
{
    return cs_processor_read_doc(
        &(struct cs_doc){.name = "preprocessor_config.json", .where = "", .json = config}, NULL,
        out, err);
}
