/* One line for all samples, with the template and the names that it reads, then one for each sample. */
#include "console/cli/shared/check/template_samples.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/system/io.h"
#include "input/chat/own.h"

/* "image", "video" or "audio": the marker of the template that holds the placeholder tells. */
static const char *type_of(const struct cs_template *chat, const char *token)
{
    static const char *const types[] = {"image", "video", "audio"};

    for (int i = 0; i < CS_MEDIA; i++)
        if (chat->media.marker[i] != NULL && strstr(chat->media.marker[i], token) != NULL)
            return types[i];
    return types[0];
}

static void add_medium(json_t *list, const struct cs_source *source, int encoder)
{
    const char *token = cs_source_keys(source)->encoder[encoder].token;

    json_array_append_new(list,
                          json_pack("{s:s}", "type", type_of(cs_source_template(source), token)));
}

static bool has_placeholder(const struct cs_record *record, int encoder)
{
    for (int t = 0; t < record->n_turns; t++)
        for (int i = 0; i < record->turns[t].n_parts; i++)
            if (record->turns[t].parts[i].encoder == encoder)
                return true;
    return false;
}

/* Files without a place in the text come first, as they are rendered. */
static json_t *content_of(const struct cs_source *source, const struct cs_record *record, int t,
                          bool is_first_user)
{
    const struct cs_turn *turn = &record->turns[t];
    json_t *list = json_array();

    for (int e = 0; is_first_user && e < cs_source_keys(source)->n; e++)
        for (int i = 0; i < record->n_files[e] && !has_placeholder(record, e); i++)
            add_medium(list, source, e);
    for (int i = 0; i < turn->n_parts; i++) {
        const struct cs_part *p = &turn->parts[i];
        if (p->encoder >= 0)
            add_medium(list, source, p->encoder);
        else
            json_array_append_new(list, json_pack("{s:s,s:o}", "type", "text", "text",
                                                  json_stringn(p->text, p->len)));
    }
    if (json_array_size(list) == 1 && turn->n_parts == 1 && turn->parts[0].encoder == -1) {
        json_decref(list);
        return json_stringn(turn->parts[0].text, turn->parts[0].len);
    }
    return list;
}

static json_t *messages_of(const struct cs_source *source, const struct cs_record *record)
{
    static const char *const roles[] = {"system", "user", "assistant"};
    json_t *out = json_array();
    bool has_user = false;

    for (int t = 0; t < record->n_turns; t++) {
        const struct cs_turn *turn = &record->turns[t];
        bool is_user = turn->role == CS_TURN_USER;
        json_t *message = json_pack("{s:s,s:o}", "role", roles[turn->role], "content",
                                    content_of(source, record, t, is_user && !has_user));
        has_user |= is_user;
        if (turn->thought != NULL)
            json_object_set_new(message, "reasoning_content",
                                json_stringn(turn->thought, turn->n_thought));
        json_array_append_new(out, message);
    }
    return out;
}

/* The same with the words of placeholders in the text, for templates that know texts alone. */
static json_t *text_of(const struct cs_source *source, const struct cs_record *record, int t,
                       bool is_first_user)
{
    const struct cs_turn *turn = &record->turns[t];
    const struct cs_record_keys *keys = cs_source_keys(source);
    struct cs_buf text = {0};

    for (int e = 0; is_first_user && e < keys->n; e++)
        for (int i = 0; i < record->n_files[e] && !has_placeholder(record, e); i++)
            cs_buf_addf(&text, "%s\n", keys->encoder[e].token);
    for (int i = 0; i < turn->n_parts; i++)
        cs_buf_add(&text, turn->parts[i].text, turn->parts[i].len);
    json_t *out = json_stringn(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return out;
}

static json_t *texts_of(const struct cs_source *source, const struct cs_record *record)
{
    json_t *out = json_array();
    bool has_user = false;

    for (int t = 0; t < record->n_turns; t++) {
        const bool is_user = record->turns[t].role == CS_TURN_USER;
        json_array_append_new(out, text_of(source, record, t, is_user && !has_user));
        has_user |= is_user;
    }
    return out;
}

static enum cs_status put_line(FILE *file, json_t *json, struct cs_err *err)
{
    char *text = json_dumps(json, JSON_COMPACT);
    enum cs_status status = text != NULL
                                ? cs_write_all(fileno(file), text, strlen(text), err)
                                : cs_fail(err, CS_NO_MEMORY, "no memory to write a sample down");

    free(text);
    json_decref(json);
    return status == CS_OK ? cs_write_all(fileno(file), "\n", 1, err) : status;
}

/* Of one sample; those that cannot be read or rendered are told elsewhere. */
static enum cs_status put_sample(const struct cs_source *source, uint64_t index, FILE *file,
                                 struct cs_err *err)
{
    const struct cs_record_keys *keys = cs_source_keys(source);
    const char *tokens[CS_MAX_ENCODERS] = {0};
    struct cs_rendering rendering = {0};
    struct cs_record *record = NULL;
    enum cs_status status = CS_OK;

    for (int e = 0; e < keys->n; e++)
        tokens[e] = keys->encoder[e].token;
    if (cs_source_record(source, index, &record, NULL) != CS_OK)
        return CS_OK;
    if (cs_template_render(cs_source_template(source), record, tokens, keys->n, &rendering, NULL) ==
        CS_OK)
        status = put_line(file,
                          json_pack("{s:I,s:o,s:o,s:o}", "sample", (json_int_t)index, "messages",
                                    messages_of(source, record), "texts", texts_of(source, record),
                                    "text",
                                    json_stringn(cs_buf_str(&rendering.text), rendering.text.len)),
                          err);
    cs_rendering_free(&rendering);
    cs_record_free(record);
    return status;
}

enum cs_status cs_template_put_samples(const struct cs_job_data *d, const char *template_,
                                       FILE *file, struct cs_err *err)
{
    const struct cs_tokenizer *tok = cs_source_tokenizer(d->source);
    json_t *names = json_pack("{s:s}", "date_string", CS_TEMPLATE_DATE);

    for (int i = 0; cs_tokenizer_name(tok, i) != NULL; i++) {
        const char *key = cs_tokenizer_name(tok, i);
        json_object_set_new(names, key, json_string(cs_tokenizer_named(tok, key)));
    }
    CS_TRY(put_line(file, json_pack("{s:s,s:o}", "template", template_, "names", names), err));
    for (uint64_t i = 0; i < cs_source_count(d->source); i++)
        CS_TRY(put_sample(d->source, i, file, err));
    return CS_OK;
}
