/* Goes through the documents of model directories; see documents.h. */
#include "input/documents/documents.h"

#include <string.h>

#include "core/arch/read/composite.h"
#include "input/documents/sounds.h"
#include "input/media/layout.h"
#include "input/media/sound/features.h"
#include "input/tok/tokenizer.h"
#include "store/fsio.h"
#include "store/hf/hfdir.h"

struct review {
    const char *dir;
    struct cs_findings *findings;
    struct cs_err *err;
    struct cs_arena *arena; /* of architectures that nobody keeps */
};

/* *out: NULL where there is no such file */
static enum cs_status read_document(const struct review *r, const char *name,
                                    char path[CS_PATH_CAP], json_t **out)
{
    *out = NULL;
    CS_TRY(cs_path(path, r->err, "%s/%s", r->dir, name));
    return cs_fs_exists(path) ? cs_fs_read_json(path, out, r->err) : CS_OK;
}

static enum cs_status review_part(const struct review *r, const char *document, const json_t *root,
                                  enum cs_module_kind kind, struct cs_arch *arch)
{
    struct cs_composite composite;
    struct cs_config_source source = {document, "", root, r->findings};
    if (cs_projector_is(root))
        return cs_arch_read_projector(&source, arch, r->err);
    if (!cs_composite_is(root))
        return cs_arch_read(&source, r->arena, arch, r->err);
    CS_TRY(cs_composite_read(&source, kind != CS_MODULE_LLM, &composite, r->err));
    arch->kind = kind;
    if (kind == CS_MODULE_PROJECTOR)
        return CS_OK; /* it is what the root says */
    const char *where =
        kind == CS_MODULE_LLM ? composite.family->text_key : composite.family->encoder_key;
    source.where = where != NULL ? where : "";
    if (*source.where != '\0') /* else the root is the tower's */
        source.json = json_object_get(root, source.where);
    return cs_arch_read(&source, r->arena, arch, r->err);
}

/* What the weights say of config.json. A directory that cannot be opened is told by who trains with it. */
static void review_tie(const struct review *r, const char *document, enum cs_module_kind kind)
{
    struct cs_hfdir *dir = NULL;
    struct cs_err unread;
    if (kind != CS_MODULE_LLM || cs_hfdir_open_kind(r->dir, kind, &dir, &unread) != CS_OK)
        return;
    if (cs_hfdir_is_tie_broken(dir))
        cs_findings_say(r->findings, CS_FINDING_SHADOWED, document, "tie_word_embeddings", NULL,
                        "tie_word_embeddings true is not used: embedding and head are two "
                        "different matrices in the weights, and stay two");
    cs_hfdir_close(dir);
}

static enum cs_status review_config(const struct review *r, enum cs_module_kind kind,
                                    struct cs_arch *arch)
{
    char path[CS_PATH_CAP];
    json_t *root = NULL;
    CS_TRY(read_document(r, "config.json", path, &root));
    if (root == NULL)
        return cs_fail(r->err, CS_NOT_FOUND, "%s holds no config.json", r->dir);
    enum cs_status status = cs_composite_complete(root)
                                ? review_part(r, path, root, kind, arch)
                                : cs_fail(r->err, CS_NO_MEMORY, "no memory for %s", path);
    if (status == CS_OK)
        review_tie(r, path, kind);
    json_decref(root);
    return status;
}

/* As in transformers 5, what processor_config.json nests holds over preprocessor_config.json. */
static enum cs_status review_nested(const struct review *r, const char *outer_path,
                                    const json_t *outer, const char *plain_path,
                                    const json_t *plain)
{
    struct cs_processor processor;
    const json_t *nested = cs_doc_get(outer, "image_processor", NULL);
    const struct cs_doc inside = {.name = outer_path, .where = "image_processor", .json = nested};
    const struct cs_doc alone = {.name = plain_path, .where = "", .json = plain};
    if (nested != NULL && plain != NULL && !json_equal(nested, plain))
        cs_findings_say(r->findings, CS_FINDING_SHADOWED, plain_path, "", NULL,
                        "it is not used: image_processor of %s holds", outer_path);
    if (nested != NULL)
        return cs_processor_read_doc(&inside, r->findings, &processor, r->err);
    return plain != NULL ? cs_processor_read_doc(&alone, r->findings, &processor, r->err) : CS_OK;
}

/* image_processor is left to review_nested, which says the same of it and more. */
static enum cs_status review_pair(const struct review *r, const char *path, const json_t *outer)
{
    json_t *rest = json_is_object(outer) ? json_copy((json_t *)(uintptr_t)outer) : NULL;
    json_object_del(rest, "image_processor");
    enum cs_status status =
        outer == NULL ? CS_OK
                      : cs_doc_review(&(struct cs_doc){.name = path,
                                                       .where = "",
                                                       .json = rest != NULL ? rest : outer,
                                                       .table = cs_processor_pair_keys()},
                                      r->findings, r->err);
    json_decref(rest);
    return status;
}

/* transformers counts a picture's tokens by it, the encoder makes them by its own. */
static enum cs_status check_patch(const struct review *r, const char *path, const json_t *outer,
                                  const struct cs_arch *encoder)
{
    const json_t *size = cs_doc_get(outer, "patch_size", NULL);
    if (size == NULL || json_integer_value(size) == encoder->patch_size)
        return CS_OK;
    return cs_fail(
        r->err, CS_INVALID,
        "%s: patch_size is %lld, but the encoder's config.json has %d: they do not belong "
        "together",
        path, (long long)json_integer_value(size), encoder->patch_size);
}

/* Rows of a picture beside its patches: so many are counted, and one is dropped by `default`. */
static enum cs_status check_extra(const struct review *r, const char *path, const json_t *outer,
                                  const struct cs_arch *encoder)
{
    const char *strategy =
        json_string_value(cs_doc_get(outer, "vision_feature_select_strategy", NULL));
    const json_int_t more =
        json_integer_value(cs_doc_get(outer, "num_additional_image_tokens", NULL)) -
        (strategy != NULL && strcmp(strategy, "default") == 0);
    const struct cs_media_encoder e = cs_media_encoder_of(encoder);
    const bool is_said =
        cs_doc_get(outer, "vision_feature_select_strategy|num_additional_image_tokens", NULL) !=
        NULL;
    if (!is_said || more == e.extra_rows)
        return CS_OK;
    return cs_fail(r->err, CS_INVALID,
                   "%s: num_additional_image_tokens and vision_feature_select_strategy count %lld "
                   "rows beside those of a picture's patches, the %s encoder makes %d",
                   path, (long long)more, e.family, e.extra_rows);
}

static enum cs_status review_processor(const struct review *r, const struct cs_arch *encoder)
{
    char outer_path[CS_PATH_CAP], plain_path[CS_PATH_CAP];
    json_t *outer = NULL, *plain = NULL;
    enum cs_status status = read_document(r, "processor_config.json", outer_path, &outer);
    if (status == CS_OK)
        status = read_document(r, "preprocessor_config.json", plain_path, &plain);
    if (status == CS_OK)
        status = review_pair(r, outer_path, outer);
    if (status == CS_OK)
        status = check_patch(r, outer_path, outer, encoder);
    if (status == CS_OK)
        status = check_extra(r, outer_path, outer, encoder);
    if (status == CS_OK)
        status = review_nested(r, outer_path, outer, plain_path, plain);
    if (status == CS_OK && plain == NULL && cs_doc_get(outer, "image_processor", NULL) == NULL)
        cs_findings_say(r->findings, CS_FINDING_DEFAULT, plain_path, "", NULL,
                        "there is none: pictures are resized to the encoder's size and normalised "
                        "to -1 .. 1, as SiglipImageProcessor does");
    json_decref(outer);
    json_decref(plain);
    return status;
}

static enum cs_status review_tokenizer(const struct review *r)
{
    struct cs_tokenizer *tokenizer = NULL;
    if (!cs_tokenizer_is_in(r->dir))
        return CS_OK;
    enum cs_status status = cs_tokenizer_review(r->dir, &tokenizer, r->findings, r->err);
    cs_tokenizer_close(tokenizer);
    return status;
}

enum cs_status cs_documents_review_beside(const char *dir, const struct cs_arch *arch,
                                          struct cs_findings *findings, struct cs_err *err)
{
    const struct review r = {dir, findings, err, NULL};
    enum cs_sound_family family;
    if (arch->kind == CS_MODULE_ENCODER && cs_sound_family_find(arch->family, &family))
        return cs_documents_review_sounds(dir, arch, findings, err);
    if (arch->kind == CS_MODULE_ENCODER)
        return review_processor(&r, arch);
    return arch->kind == CS_MODULE_LLM ? review_tokenizer(&r) : CS_OK;
}

enum cs_status cs_documents_review(const char *dir, enum cs_module_kind kind,
                                   struct cs_findings *findings, struct cs_err *err)
{
    struct cs_arch arch = {0};
    const struct review r = {dir, findings, err, cs_arena_new(0)};
    enum cs_status status = review_config(&r, kind, &arch);
    if (status == CS_OK)
        status = cs_documents_review_beside(dir, &arch, findings, err);
    cs_arena_free(r.arena);
    return status;
}
