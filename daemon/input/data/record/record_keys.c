/* Tables of the keys of samples, and whose files stand under which. */
#include "input/data/record/record_keys.h"

#include <stdio.h>
#include <string.h>

#define MEDIA (CS_DOC_STRING | CS_DOC_LIST | CS_DOC_OBJECT)
#define TRAINS(names_)                                                                             \
    {                                                                                              \
        .names = (names_), .types = CS_DOC_BOOL | CS_DOC_NUMBER, .max = 1,                         \
        .text = "whether an answer trains"                                                         \
    }
#define FPS(names_)                                                                                \
    {                                                                                              \
        .names = (names_), .types = CS_DOC_POSITIVE, .max = 1e6,                                   \
        .text = "frames a second of pictures that are a video"                                     \
    }
#define HARMLESS(names_)                                                                           \
    {                                                                                              \
        .names = (names_), .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS, .text = "for people"       \
    }
#define REFUSED(names_, only_, why)                                                                \
    {                                                                                              \
        .names = (names_), .types = CS_DOC_ANY, .use = CS_DOC_REFUSED, .only = (only_),            \
        .text = (why)                                                                              \
    }

/* What people call media. Encoders' own keys are found first. */
#define NO_ENCODER "no encoder of the job reads this key"
static const struct cs_doc_key media_rows[] = {
    REFUSED("image|images|img|imgs|picture|pictures|photo|photos", "[]", NO_ENCODER),
    REFUSED("image_path|image_paths|image_file|image_files|image_url|image_urls|img_path", "[]",
            NO_ENCODER),
    REFUSED("video|videos|video_path|video_paths|video_file|video_url|frames", "[]", NO_ENCODER),
    REFUSED("audio|audios|audio_path|audio_paths|audio_file|audio_url|input_audio", "[]",
            NO_ENCODER),
    REFUSED("sound|sounds|speech|voice|wav|pixel_values", "[]", NO_ENCODER),
};
static const struct cs_doc_table media_table = CS_DOC_TABLE(media_rows, NULL);

static const struct cs_doc_key file_rows[] = {
    {.names = "path|url",          .types = CS_DOC_STRING, .text = "of the file"         },
    {.names = "bytes|base64|data",
     .types = CS_DOC_STRING | CS_DOC_INT,
     .text = "the file in base64"                                                        },
    {.names = "frames",            .types = CS_DOC_LIST,   .text = "of a video: pictures"},
    FPS("fps|sample_fps"),
    HARMLESS("detail|format|mime_type|media_type|filename|sampling_rate"),
};
static const struct cs_doc_table file_table = CS_DOC_TABLE(file_rows, NULL);

static const struct cs_doc_key part_rows[] = {
    {.names = "type",              .types = CS_DOC_STRING, .text = "text, or a key of an encoder"},
    {.names = "text",              .types = CS_DOC_ANY,    .text = "of a part of type text"      },
    {.names = "path|url",          .types = CS_DOC_STRING, .text = "of the file"                 },
    {.names = "bytes|base64|data", .types = CS_DOC_STRING, .text = "the file in base64"          },
    FPS("fps|sample_fps"),
    HARMLESS("detail|format|mime_type|media_type|filename"),
    REFUSED("index", NULL, "files are taken in the order of their places"),
};
static const struct cs_doc_table part_table = CS_DOC_TABLE(part_rows, &media_table);

static const struct cs_doc_key turn_rows[] = {
    {.names = CS_RECORD_SIDE_KEYS,  .types = CS_DOC_STRING, .text = "a question, beside its answer"},
    {.names = CS_RECORD_OTHER_KEYS, .types = CS_DOC_STRING, .text = "the answer"                   },
    {.names = "from|role",
     .types = CS_DOC_STRING,
     .accept = "human|user|gpt|assistant|model|bot|chatgpt|system|developer",
     .text = "who speaks"},
    TRAINS("loss"),
    TRAINS("weight"),
    TRAINS("train"),
    TRAINS("trainable"),
    TRAINS("loss_weight"),
    TRAINS("loss_scale"),
    REFUSED("loss_mask|mask|train_detail|train_on|labels", NULL,
            "say with \"loss\": 0 that an answer does not train; parts of answers all train"),
    REFUSED("tool_calls|function_call|functions|tools|tool_call_id", "[]",
            "calls of functions are not rendered"),
    {.names = "reasoning_content|reasoning|thinking",
     .types = CS_DOC_STRING,
     .text = "what an answer thought before it spoke"                                                                        },
};
static const struct cs_doc_table turn_table = CS_DOC_TABLE(turn_rows, &media_table);

static const struct cs_doc_key sample_rows[] = {
    {.names = "system|system_prompt", .types = CS_DOC_STRING, .text = "text of a system turn"          },
    HARMLESS("id|uid|question_id|source|dataset|metadata|__key__|__url__|data_source"),
    HARMLESS("width|height|width_list|height_list"),
    {.names = "channel",              .types = CS_DOC_STRING, .text = "what its loss is reported under"},
    REFUSED("weight|loss_weight|sample_weight", "1", "all samples weigh the same"),
    REFUSED("loss|train|trainable", "true", "leave the sample out instead"),
    REFUSED("tools|functions", "[]", "descriptions of functions are not rendered"),
    REFUSED("chosen|rejected|rejected_response", NULL, "preferences are not trained on"),
};
static const struct cs_doc_table sample_table = CS_DOC_TABLE(sample_rows, &media_table);

static const struct cs_doc_key flat_rows[] = {
    {.names = CS_RECORD_QUESTION_KEYS, .types = CS_DOC_STRING, .text = "the question"            },
    {.names = "input",                 .types = CS_DOC_STRING, .text = "more of the question"    },
    {.names = CS_RECORD_ANSWER_KEYS,   .types = CS_DOC_STRING, .text = "the answer"              },
    {.names = CS_RECORD_CAPTION_KEYS,  .types = CS_DOC_STRING, .text = "what is to be said of it"},
    {.names = "history",               .types = CS_DOC_LIST,   .text = "exchanges before it"     },
};
static const struct cs_doc_table flat_table = CS_DOC_TABLE(flat_rows, &sample_table);

/* --- words ------------------------------------------------------------------------------------ */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* "<|image_pad|>" -> "image_pad"; NULL: the token holds no plain word */
static const char *word_of(struct cs_arena *arena, const char *token)
{
    size_t skip = strspn(token, "<|["), n = 0;

    while (is_letter(token[skip + n]) ||
           (n > 0 && token[skip + n] >= '0' && token[skip + n] <= '9'))
        n++;
    if (n == 0 || n > 40 || token[skip + n + strspn(token + skip + n, "|>]")] != '\0')
        return NULL;
    return cs_arena_strndup(arena, token + skip, n);
}

/* Words of an encoder that it is called by in samples, most wanted first; at most 3. is_alone: it is the only
 * one of pictures, or of sounds. */
static int words_of(const struct cs_record_encoder *e, int n_encoders, bool is_alone,
                    struct cs_arena *arena, const char *out[CS_RECORD_MARKS])
{
    const char *wanted[] = {!is_alone      ? NULL
                            : e->has_sound ? "audio"
                                           : "image",
                            word_of(arena, e->token), n_encoders > 1 ? e->name : NULL};
    int n = 0;

    if (e->key != NULL && e->key[0] != '\0') {
        out[0] = e->key;
        return 1;
    }
    for (size_t i = 0; i < CS_ARRAY_LEN(wanted); i++) {
        bool is_new = wanted[i] != NULL;
        for (int k = 0; k < n && is_new; k++)
            is_new = strcmp(out[k], wanted[i]) != 0;
        if (is_new)
            out[n++] = wanted[i];
    }
    return n;
}

/* Spellings beside a word and its plural. */
static const char *other_names(struct cs_arena *arena, const char *w)
{
    return cs_arena_printf(arena, "|%s_url|%s_urls|%s_path|%s_paths|input_%s", w, w, w, w, w);
}

static void set_videos(struct cs_record_keys *keys, int e, struct cs_arena *arena)
{
    keys->encoder[e].videos =
        cs_arena_printf(arena, "video|videos|video_file%s", other_names(arena, "video"));
    keys->encoder[e].video_mark[0] = "<video>";
    keys->encoder[e].video_mark[1] = "<|video_pad|>";
}

static void set_words(struct cs_record_keys *keys, int e, const char *const *word, int n,
                      struct cs_arena *arena)
{
    const char *said = "", *others = "";
    int marks = 1;

    keys->encoder[e].mark[0] = keys->encoder[e].token;
    for (int i = 0; i < n; i++) {
        const char *mark = cs_arena_printf(arena, "<%s>", word[i]), *w = word[i];
        said = cs_arena_printf(arena, "%s%s%s|%ss", said, i > 0 ? "|" : "", w, w);
        others = cs_arena_printf(arena, "%s%s", others, other_names(arena, w));
        if (strcmp(mark, keys->encoder[e].token) != 0)
            keys->encoder[e].mark[marks++] = mark;
    }
    keys->encoder[e].said = said;
    keys->encoder[e].names = cs_arena_printf(arena, "%s%s", said, others);
}

/* No key and no mark of encoder e may be one of an earlier encoder's. */
static enum cs_status check_apart(const struct cs_record_keys *keys, int e, struct cs_err *err)
{
    static const char advice[] = "give one of them a placeholder or a key of its own";

    for (int other = 0; other < e; other++) {
        char name[CS_DOC_NAME];
        if (keys->encoder[other].videos != NULL && keys->encoder[e].videos != NULL)
            return cs_fail(err, CS_INVALID, "encoders %s and %s would both read videos: one can",
                           keys->encoder[other].name, keys->encoder[e].name);
        for (const char *at = keys->encoder[e].names; *at != '\0';) {
            size_t n = strcspn(at, "|");
            snprintf(name, sizeof name, "%.*s", (int)n, at);
            if (cs_doc_is_word(keys->encoder[other].names, name))
                return cs_fail(err, CS_INVALID,
                               "encoders %s and %s would both read the key \"%s\" of a sample: %s",
                               keys->encoder[other].name, keys->encoder[e].name, name, advice);
            at += n + (at[n] == '|');
        }
        for (int i = 0; keys->encoder[e].mark[i] != NULL; i++)
            for (int k = 0; keys->encoder[other].mark[k] != NULL; k++)
                if (strcmp(keys->encoder[e].mark[i], keys->encoder[other].mark[k]) == 0)
                    return cs_fail(err, CS_INVALID, "encoders %s and %s would both stand at %s: %s",
                                   keys->encoder[other].name, keys->encoder[e].name,
                                   keys->encoder[e].mark[i], advice);
    }
    return CS_OK;
}

/* --- tables ----------------------------------------------------------------------------------- */

/* Rows of the encoders before the table that all jobs share. first: one more row, or NULL. */
static void put_table(const struct cs_record_keys *keys, struct cs_arena *arena,
                      const struct cs_doc_key *first, const struct cs_doc_key *as,
                      const struct cs_doc_table *more, struct cs_doc_table *out)
{
    struct cs_doc_key *rows = CS_NEW_ARRAY(arena, struct cs_doc_key, 2 * keys->n + 1);
    int n = 0;

    if (first != NULL)
        rows[n++] = *first;
    for (int e = 0; e < keys->n; e++) {
        rows[n] = *as;
        rows[n++].names = keys->encoder[e].names;
        if (keys->encoder[e].videos == NULL)
            continue;
        rows[n] = *as;
        rows[n++].names = keys->encoder[e].videos;
    }
    *out = (struct cs_doc_table){
        .rows = rows, .stride = sizeof *rows, .n = n, .more = more, .refuses_shadowed = true};
}

static void put_tables(struct cs_record_keys *keys, struct cs_arena *arena)
{
    const struct cs_doc_key media = {
        .types = MEDIA, .text = "files of an encoder", .inside = &file_table};
    const struct cs_doc_key in_turn =
        REFUSED(NULL, "[]", "files of a turn stand in its content or at the top of the sample");
    const struct cs_doc_key content = {
        .names = "value|content", .types = CS_DOC_ANY, .text = "text", .inside = &keys->part};
    const struct cs_doc_key turns = {.names = CS_RECORD_TURN_KEYS,
                                     .types = CS_DOC_LIST,
                                     .text = "the turns",
                                     .inside = &keys->turn};

    put_table(keys, arena, NULL, &media, &part_table, &keys->part);
    put_table(keys, arena, &content, &in_turn, &turn_table, &keys->turn);
    put_table(keys, arena, &turns, &media, &sample_table, &keys->sample);
    put_table(keys, arena, NULL, &media, &flat_table, &keys->flat);
}

enum cs_status cs_record_keys_new(const struct cs_record_encoder *encoder, int n,
                                  struct cs_arena *arena, struct cs_record_keys **out,
                                  struct cs_err *err)
{
    struct cs_record_keys *keys = CS_NEW(arena, struct cs_record_keys);

    int n_sounds = 0;

    CS_ASSERT(n <= CS_MAX_ENCODERS);
    for (int e = 0; e < n; e++)
        n_sounds += encoder[e].has_sound;
    for (int e = 0; e < n; e++) {
        const char *word[CS_RECORD_MARKS];
        const bool is_alone = (encoder[e].has_sound ? n_sounds : n - n_sounds) == 1;
        int n_words = words_of(&encoder[e], n, is_alone, arena, word);
        keys->encoder[e].name = cs_arena_strdup(arena, encoder[e].name);
        keys->encoder[e].token = cs_arena_strdup(arena, encoder[e].token);
        set_words(keys, e, word, n_words, arena);
        if (encoder[e].has_video)
            set_videos(keys, e, arena);
        CS_TRY(check_apart(keys, e, err));
        keys->n++;
    }
    put_tables(keys, arena);
    *out = keys;
    return CS_OK;
}
