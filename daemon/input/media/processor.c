/* What an encoder sees of pixels. */
#include "input/media/processor_classes.h"

void cs_processor_normalise(const struct cs_processor *processor, const uint8_t *pixels, size_t n,
                            float *values)
{
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < 3; c++) {
            float v = (float)((double)pixels[i * 3 + c] * processor->rescale);
            values[c * n + i] = (v - processor->mean[c]) / processor->std[c];
        }
}

void cs_processor_say_colours(json_t *config)
{
    static const char *const keys[] = {"do_rescale", "rescale_factor", "do_normalize", "image_mean",
                                       "image_std"};
    const json_t *name = cs_doc_get(config, "image_processor_type|feature_extractor_type", NULL);
    const struct cs_processor_class *row =
        json_is_string(name) ? cs_processor_class_find(json_string_value(name)) : NULL;
    json_t *defaults = row != NULL ? json_loads(row->defaults, 0, NULL) : NULL;

    for (size_t i = 0; defaults != NULL && i < CS_ARRAY_LEN(keys); i++) {
        const json_t *said = json_object_get(config, keys[i]);
        if (said == NULL || json_is_null(said))
            json_object_set(config, keys[i], json_object_get(defaults, keys[i]));
        else if (json_is_number(said) && i >= 3) /* of all channels */
            json_object_set_new(config, keys[i], json_pack("[O, O, O]", said, said, said));
    }
    json_decref(defaults);
}

void cs_processor_default(const struct cs_arch *encoder, struct cs_processor *out)
{
    *out = (struct cs_processor){
        .kind = CS_PROCESSOR_PLAIN,
        .name = "SiglipImageProcessor",
        .height = encoder->image_size,
        .width = encoder->image_size,
        .channels = 3,
        .size = {.height = encoder->image_size, .width = encoder->image_size},
        .do_resize = true,
        .resample = CS_RESAMPLE_BICUBIC,
        .rescale = 1.0 / 255.0,
        .mean = { 0.5f,                         0.5f,                         0.5f},
        .std = { 0.5f,                         0.5f,                         0.5f},
    };
}
