/* Goes through what a directory says is done to sounds. */
#include "input/documents/sounds.h"

#include <string.h>

#include "input/media/sound/features.h"
#include "store/fsio.h"

static const char nested_key[] = "feature_extractor";

/* *out: NULL where there is no such file */
static enum cs_status read_document(const char *dir, const char *name, char path[CS_PATH_CAP],
                                    json_t **out, struct cs_err *err)
{
    *out = NULL;
    CS_TRY(cs_path(path, err, "%s/%s", dir, name));
    return cs_fs_exists(path) ? cs_fs_read_json(path, out, err) : CS_OK;
}

/* What stands around the extractor; that itself is read by review_extractor. */
static enum cs_status review_around(const char *path, const json_t *outer,
                                    struct cs_findings *findings, struct cs_err *err)
{
    json_t *rest = json_copy((json_t *)(uintptr_t)outer);
    const struct cs_doc doc = {
        .name = path, .where = "", .json = rest, .table = cs_sound_processor_pair_keys()};

    json_object_del(rest, nested_key);
    const enum cs_status status = cs_doc_review(&doc, findings, err);
    json_decref(rest);
    return status;
}

static enum cs_status review_extractor(const struct cs_doc *doc, const struct cs_arch *encoder,
                                       struct cs_findings *findings, struct cs_err *err)
{
    struct cs_sound_processor p;

    CS_TRY(cs_sound_processor_read(doc, findings, &p, err));
    if (p.n_mels == encoder->channels)
        return CS_OK;
    return cs_fail(err, CS_INVALID,
                   "%s: feature_size is %d, the %s encoder's config.json has %d mel bands: they do "
                   "not belong together",
                   doc->name, p.n_mels, encoder->family, encoder->channels);
}

enum cs_status cs_documents_review_sounds(const char *dir, const struct cs_arch *encoder,
                                          struct cs_findings *findings, struct cs_err *err)
{
    char outer_path[CS_PATH_CAP], plain_path[CS_PATH_CAP];
    json_t *outer = NULL, *plain = NULL;
    enum cs_status status = read_document(dir, "processor_config.json", outer_path, &outer, err);

    if (status == CS_OK)
        status = read_document(dir, "preprocessor_config.json", plain_path, &plain, err);
    if (status == CS_OK && outer != NULL)
        status = review_around(outer_path, outer, findings, err);
    const json_t *nested = cs_doc_get(outer, nested_key, NULL);
    const struct cs_doc inside = {.name = outer_path, .where = nested_key, .json = nested};
    const struct cs_doc alone = {.name = plain_path, .where = "", .json = plain};
    if (status == CS_OK && nested != NULL && plain != NULL && !json_equal(nested, plain))
        cs_findings_say(findings, CS_FINDING_SHADOWED, plain_path, "", NULL,
                        "it is not used: %s of %s holds", nested_key, outer_path);
    if (status == CS_OK && (nested != NULL || plain != NULL))
        status = review_extractor(nested != NULL ? &inside : &alone, encoder, findings, err);
    else if (status == CS_OK)
        cs_findings_say(findings, CS_FINDING_DEFAULT, plain_path, "", NULL,
                        "there is none: sounds become log-mel features of %d bands, 30 seconds at "
                        "16 kHz, as WhisperFeatureExtractor does",
                        encoder->channels);
    json_decref(outer);
    json_decref(plain);
    return status;
}
