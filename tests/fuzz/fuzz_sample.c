/* Fuzz target: samples and mixtures that are nearly right. The first byte says which form of sample is
 * changed, or that the list of a mixture is. Of a sample that is read all is done that a job would do but for
 * its pixels: the bytes of its media are looked at, its text is rendered and becomes rows. Those must be in
 * order, every label a token. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/edit.h"
#include "input/data/media_file.h"
#include "input/data/mix.h"
#include "input/data/record/record.h"
#include "input/data/sample.h"
#include "input/picture/image.h"
#include "support/chat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PICTURE                                                                                    \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC"

static const char *const samples[] = {
    "{\"id\":\"a\",\"image\":\"a.png\",\"conversations\":[{\"from\":\"human\",\"value\":\"<image>"
    "\\nq\"},"
    "{\"from\":\"gpt\",\"value\":\"a\"},{\"from\":\"human\",\"value\":\"q\"},{\"from\":\"gpt\","
    "\"value\":"
    "\"a\",\"loss\":false}],\"system\":\"s\"}",
    "{\"messages\":[{\"role\":\"system\",\"content\":\"s\"},{\"role\":\"user\",\"content\":[{"
    "\"type\":\"text\","
    "\"text\":\"q\"},{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:image/"
    "png;base64," PICTURE "\"}},{\"type\":\"input_audio\",\"input_audio\":{\"data\":\"UklGRg==\","
    "\"format\":\"wav\"}}]},{\"role\":"
    "\"assistant\",\"content\":\"a\",\"reasoning_content\":\"t\"}],\"channel\":\"c\"}",
    "{\"images\":[\"a.png\",{\"bytes\":\"" PICTURE
    "\",\"path\":null},{\"path\":\"b.png\"}],\"texts\":[{\"user\":"
    "\"<image><image><image>q\",\"assistant\":\"a\",\"source\":\"s\"}]}",
    "{\"instruction\":\"q\",\"input\":\"<image>i\",\"output\":\"a\",\"history\":[[\"q\",\"a\"]],"
    "\"image\":"
    "\"a.png\"}",
    "{\"videos\":[[\"1.png\",\"2.png\"],\"v.mp4\",{\"frames\":[\"1.png\"],\"fps\":2.5}],"
    "\"messages\":[{\"role\":"
    "\"user\",\"content\":\"<video><video><video>q\"},{\"role\":\"assistant\",\"content\":\"a\"}]}",
    "{\"image\":\"data:image/png;base64," PICTURE "\",\"caption\":\"c\"}",
    "{\"audio\":{\"path\":\"a.wav\"},\"query\":\"<|audio|>q\",\"response\":\"a\"}",
};
static const char mixture[] = "[{\"json\":\"/a.json\",\"images\":\"/"
                              "p\",\"weight\":0.5,\"name\":\"n\"},{\"json\":\"/b\",\"weight\":2}]";
static const char *const tokens[] = {"<image>", "<|audio|>"};

struct world {
    struct cs_arena *arena;
    struct cs_tokenizer *tok;
    struct cs_template chat;
    struct cs_record_keys *keys;
    struct cs_sample_rules rules;
};

static const struct world *world(void)
{
    static struct world w;
    static const struct cs_record_encoder encoder[] = {
        {.name = "vision", .token = "<image>",   .key = "", .has_video = true},
        {.name = "audio",  .token = "<|audio|>", .key = "", .has_sound = true}
    };

    if (w.arena != NULL)
        return &w;
    json_t *root = chat_tokenizer_json();
    json_t *added = json_object_get(root, "added_tokens");
    json_t *one = json_deep_copy(json_array_get(added, json_array_size(added) - 1));
    json_object_set_new(one, "content", json_string("<|audio|>"));
    json_object_set_new(one, "id",
                        json_integer(json_integer_value(json_object_get(one, "id")) + 1));
    json_array_append_new(added, one);
    char *text = json_dumps(root, JSON_COMPACT);
    w.arena = cs_arena_new(0);
    fuzz_must(cs_tokenizer_parse(text, strlen(text), "tok", &w.tok, NULL) == CS_OK &&
              cs_template_read(NULL, w.arena, &w.chat, NULL) == CS_OK &&
              cs_record_keys_new(encoder, 2, w.arena, &w.keys, NULL) == CS_OK &&
              cs_sample_rules_init(&w.rules, w.tok, &w.chat, tokens, 2, NULL) == CS_OK);
    w.rules.rows[0] = 3;
    w.rules.rows[1] = 2;
    w.rules.seq_tokens = 2000;
    free(text);
    json_decref(root);
    return &w;
}

static void look_at_media(const struct cs_record *record)
{
    int32_t width = 0, height = 0;

    for (int e = 0; e < 2; e++)
        for (int i = 0; i < record->n_files[e]; i++) {
            const struct cs_media_file *file = &record->files[e][i];
            fuzz_must(file->name != NULL);
            if (file->bytes != NULL)
                (void)!cs_image_probe_bytes(file->bytes, file->n_bytes, "x", 0, &width, &height,
                                            NULL);
        }
}

static void must_be_whole(const struct cs_sample *s, int32_t vocab)
{
    fuzz_must(s->n_tokens > 0 && s->n_tokens <= 2000 && s->n_labels > 0);
    for (int32_t t = 0; t < s->n_tokens; t++) {
        fuzz_must(s->ids[t] >= 0 && s->ids[t] < vocab);
        fuzz_must(s->labels[t] == -1 || s->labels[t] == s->ids[t + 1]);
    }
    for (int32_t m = 0; m < s->n_media; m++)
        for (int32_t r = 0; r < s->media[m].layout.n_rows; r++)
            fuzz_must(s->media[m].row[r] >= 0 && s->media[m].row[r] < s->n_tokens &&
                      (r == 0 || s->media[m].row[r] > s->media[m].row[r - 1]));
}

static void read_sample(const json_t *item, const struct world *w)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_record *record = NULL;
    struct cs_rendering rendering = {0};
    struct cs_sample sample = {0};
    struct cs_err err = {0};

    if (cs_record_read(item, w->keys, &findings, &record, &err) != CS_OK) {
        fuzz_must(record == NULL && err.text[0] != '\0');
        cs_arena_free(arena);
        return;
    }
    look_at_media(record);
    if (cs_sample_make(&w->rules, record, &rendering, &sample, &err) == CS_OK)
        must_be_whole(&sample, cs_tokenizer_vocab(w->tok));
    else
        fuzz_must(err.text[0] != '\0');
    cs_sample_free(&sample);
    cs_rendering_free(&rendering);
    cs_record_free(record);
    cs_arena_free(arena);
}

static void read_mixture(json_t *list)
{
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_spec_data data = {
        .json = "/x", .images = "", .mix = list, .name = "", .weight = 1};
    struct cs_dataset_options options;
    struct cs_err err = {0};

    if (cs_mix_options(&data, arena, &options, &err) != CS_OK)
        fuzz_must(err.text[0] != '\0');
    else
        for (int32_t i = 0; i < options.n_more; i++)
            fuzz_must(options.more[i].path[0] == '/' && options.more[i].weight >= 0);
    cs_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint32_t n = (uint32_t)CS_ARRAY_LEN(samples);
    struct fuzz_bytes bytes = {data, size};
    const uint32_t which = fuzz_take(&bytes, n + 1);
    json_t *document = json_loads(which < n ? samples[which] : mixture, 0, NULL);

    fuzz_must(document != NULL);
    fuzz_edit(document, &bytes);
    if (which < n)
        read_sample(document, world());
    else
        read_mixture(document);
    json_decref(document);
    return 0;
}
