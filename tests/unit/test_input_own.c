/* A tokenizer's own chat template: the same text as transformers, or refused; where it is looked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/chat/own.h"
#include "input/data/record/record.h"
#include "support/chat.h"
#include "support/keys.h"
#include "support/tmpdir.h"

struct world {
    char *dir;
    struct cs_arena *arena;
    struct cs_tokenizer *tok;
    struct cs_template chat;
    struct cs_err err;
};

/* takes json */
static void put_json(const char *dir, const char *name, json_t *json)
{
    char *text = json_dumps(json, 0);

    tmpdir_write(tmpdir_path(dir, name), text, strlen(text));
    free(text);
    json_decref(json);
}

static void open_world(struct world *w)
{
    json_t *tok = chat_tokenizer_json();

    *w = (struct world){.dir = tmpdir_new(), .arena = cs_arena_new(0)};
    put_json(w->dir, "tokenizer.json", tok);
}

static void open_tokenizer(struct world *w)
{
    cs_tokenizer_close(w->tok);
    if (cs_tokenizer_open(w->dir, &w->tok, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
}

static void close_world(struct world *w)
{
    cs_tokenizer_close(w->tok);
    cs_arena_free(w->arena);
    tmpdir_free(w->dir);
}

/* What trains in brackets. */
static char *with_brackets(const struct cs_rendering *r)
{
    struct cs_buf out = {0};
    char *text = NULL;

    for (size_t i = 0; i < r->n; i++) {
        bool was = i > 0 && r->segments[i - 1].is_trained, is = r->segments[i].is_trained;
        if (was != is)
            cs_buf_adds(&out, is ? "{" : "}");
        cs_buf_add(&out, cs_buf_str(&r->text) + r->segments[i].begin,
                   r->segments[i].end - r->segments[i].begin);
    }
    if (r->n > 0 && r->segments[r->n - 1].is_trained)
        cs_buf_adds(&out, "}");
    text = strdup(cs_buf_str(&out));
    cs_buf_free(&out);
    return text;
}

/* NULL: the conversation is refused. token: of pictures. */
static char *render_item(const struct cs_template *chat, const json_t *item, const char *token,
                         bool has_brackets)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_rendering rendering = {0};
    struct cs_record *record = NULL;
    struct cs_err err = {0};
    char *out = NULL;

    if (cs_record_read(item, test_keys(&token, 1, arena), NULL, &record, &err) != CS_OK)
        fail_msg("%s", err.text);
    if (cs_template_render(chat, record, &token, 1, &rendering, &err) == CS_OK)
        out = has_brackets ? with_brackets(&rendering) : strdup(cs_buf_str(&rendering.text));
    cs_rendering_free(&rendering);
    cs_record_free(record);
    cs_arena_free(arena);
    return out;
}

static char *rendered(const struct cs_template *chat, const json_t *turns)
{
    json_t *item = json_pack("{s:O}", "conversations", turns);
    char *out = render_item(chat, item, "<image>", false);

    json_decref(item);
    return out;
}

/* one of "a|b" is in text */
static bool has_one_of(const char *text, const char *words)
{
    char word[100];

    for (const char *at = words; *at != '\0'; at += strspn(at, "|")) {
        snprintf(word, sizeof(word), "%.*s", (int)strcspn(at, "|"), at);
        if (strstr(text, word) != NULL)
            return true;
        at += strlen(word);
    }
    return false;
}

static void compare(struct world *w, const json_t *one, const json_t *conversations)
{
    const char *title = json_string_value(json_object_get(one, "title"));
    const char *refused = json_string_value(json_object_get(one, "refused"));
    const char *name = json_string_value(json_object_get(one, "name"));
    json_t *config = json_deep_copy(json_object_get(one, "names")), *turns = NULL;
    bool has = false;
    size_t i = 0;

    json_object_set(config, "chat_template", json_object_get(one, "template"));
    put_json(w->dir, "tokenizer_config.json", config);
    open_tokenizer(w);
    enum cs_status status = cs_template_own(w->dir, w->tok, w->arena, &w->chat, &has, &w->err);
    assert_true(has);
    if (refused != NULL) {
        if (status == CS_OK || !has_one_of(w->err.text, refused) ||
            strstr(w->err.text, "tokenizer_config.json") == NULL)
            fail_msg("%s: status %d, %s", title, (int)status, w->err.text);
        return;
    }
    if (status != CS_OK)
        fail_msg("%s: %s", title, w->err.text);
    if (name != NULL)
        assert_string_equal(w->chat.name, name);
    json_array_foreach(conversations, i, turns)
    {
        const char *want = json_string_value(json_array_get(json_object_get(one, "texts"), i));
        char *got = rendered(&w->chat, turns);
        /* an order of turns that a table would render otherwise is refused */
        if (got == NULL ? want != NULL && i != 5 : want == NULL || strcmp(got, want) != 0)
            fail_msg("%s, conversation %zu:\n%s\ntransformers:\n%s", title, i,
                     got == NULL ? "(refused)" : got, want == NULL ? "(refused)" : want);
        free(got);
    }
}

static void texts_are_those_of_transformers(void **state)
{
    json_t *golden = json_load_file(source_path("tests/golden/chats.json"), 0, NULL), *one = NULL;
    size_t i = 0;

    (void)state;
    assert_non_null(golden);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        struct world w;
        open_world(&w);
        compare(&w, one, json_object_get(golden, "conversations"));
        close_world(&w);
    }
    assert_true(i > 20);
    json_decref(golden);
}

/* the built-in templates: the same texts as those that come with the models */
static void built_in_templates_are_the_models_own(void **state)
{
    json_t *golden = json_load_file(source_path("tests/golden/families.json"), 0, NULL);
    json_t *one = NULL, *text = NULL;
    size_t i = 0, k = 0, n = 0;

    (void)state;
    assert_non_null(golden);
    json_array_foreach(json_object_get(golden, "cases"), i, one)
    {
        const char *name = json_string_value(json_object_get(one, "name"));
        const char *token = json_string_value(json_object_get(one, "token"));
        json_t *node = json_pack("{s:s}", "name", name);
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_template chat;
        assert_int_equal(cs_template_read(node, arena, &chat, NULL), CS_OK);
        json_array_foreach(json_object_get(one, "texts"), k, text)
        {
            const json_t *item = json_array_get(json_object_get(golden, "conversations"), k);
            char *got = render_item(&chat, item, token, false);
            if (!json_is_null(text) && (got == NULL || strcmp(got, json_string_value(text)) != 0))
                fail_msg("%s, conversation %zu:\n%s\ntransformers:\n%s", name, k,
                         got != NULL ? got : "(refused)", json_string_value(text));
            n += !json_is_null(text);
            free(got);
        }
        json_decref(node);
        cs_arena_free(arena);
    }
    assert_true(n > 200);
    json_decref(golden);
}

/* the text with what trains in braces; node: the template */
static void expect_trained(const char *node_text, const char *item_text, const char *want)
{
    json_t *node = json_loads(node_text, 0, NULL), *item = json_loads(item_text, 0, NULL);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_template chat;
    char *got = NULL;

    if (cs_template_read(node, arena, &chat, &err) != CS_OK)
        fail_msg("%s", err.text);
    got = render_item(&chat, item, "<image>", true);
    if (got == NULL || strcmp(got, want) != 0)
        fail_msg("%s:\n%s\nwanted:\n%s", node_text, got != NULL ? got : "(refused)", want);
    free(got);
    json_decref(node);
    json_decref(item);
    cs_arena_free(arena);
}

#define THOUGHTS                                                                                   \
    "{\"messages\":[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":"    \
    "\"<think>\\nw\\n</think>\\n\\nx\"},{\"role\":\"user\",\"content\":\"r\"},{\"role\":"          \
    "\"assistant\",\"content\":\"y\"%s}]}"
#define ASKED(q, answer)                                                                           \
    "<|im_start|>user\n" q "<|im_end|>\n<|im_start|>assistant\n" answer "<|im_end|>}\n"

/* what the prompt holds and what the template adds on its own is not trained */
static void thoughts_train_where_the_model_writes_them(void **state)
{
    char item[600];

    (void)state;
    snprintf(item, sizeof item, THOUGHTS, "");
    expect_trained("{\"name\":\"qwen3\"}", item,
                   ASKED("q", "{x") ASKED("r", "<think>\n\n</think>\n\n{y"));
    expect_trained("{\"name\":\"qwen3\",\"thinking\":\"keep\"}", item,
                   ASKED("q", "{<think>\nw\n</think>\n\nx")
                       ASKED("r", "<think>\n\n</think>\n\n{y"));
    expect_trained("{\"name\":\"qwen3\",\"thinking\":\"data\"}", item,
                   ASKED("q", "{<think>\nw\n</think>\n\nx") ASKED("r", "{y"));
    snprintf(item, sizeof item, THOUGHTS, ",\"reasoning_content\":\"v\"");
    expect_trained("{\"name\":\"qwen3\"}", item,
                   ASKED("q", "{x") ASKED("r", "{<think>\nv\n</think>\n\ny"));
    expect_trained("{\"name\":\"qwen3_5\"}", item,
                   ASKED("q", "{x") ASKED("r", "<think>\n{v\n</think>\n\ny"));
    expect_trained(
        "{\"name\":\"chatml\",\"default_system\":\"\",\"think\":{\"open\":\"<t>\",\"close\":"
        "\"</t>\"}}",
        item, ASKED("q", "{<think>\nw\n</think>\n\nx") ASKED("r", "{<t>v</t>y"));
}

/* a system text inside of a question, and what ends a conversation */
static void system_texts_stand_where_the_template_has_them(void **state)
{
    static const char item[] =
        "{\"system\":\"s\",\"messages\":[{\"role\":\"user\",\"content\":\" q\"},{\"role\":"
        "\"assistant\",\"content\":\"x\"},{\"role\":\"user\",\"content\":\"r\"},{\"role\":"
        "\"assistant\",\"content\":\"y\"}]}";

    (void)state;
    expect_trained("{\"name\":\"mistral_v3\"}", item,
                   "<s>[INST]  q[/INST]{ x</s>}[INST] s\n\nr[/INST]{ y</s>}");
    expect_trained("{\"name\":\"mistral_v3\",\"system_in\":\"first\"}", item,
                   "<s>[INST] s\n\n q[/INST]{ x</s>}[INST] r[/INST]{ y</s>}");
    expect_trained("{\"name\":\"mistral_v7\",\"train_on\":\"last\"}", item,
                   "<s>[SYSTEM_PROMPT] s[/SYSTEM_PROMPT][INST]  q[/INST] x</s>[INST] r[/INST]{ "
                   "y</s>}");
    expect_trained("{\"name\":\"llama2\"}", item,
                   "<s>[INST] <<SYS>>\ns\n<</SYS>>\n\n q [/INST]{ x </s>}<s>[INST] r [/INST]{ y "
                   "</s>}");
    expect_trained(
        "{\"name\":\"phi3\",\"tail\":\"!\"}", item,
        "<|system|>\ns<|end|>\n<|user|>\n q<|end|>\n<|assistant|>\n{x<|end|>}\n<|user|>\n"
        "r<|end|>\n<|assistant|>\n{y<|end|>}\n!");
}

static void put_text(const struct world *w, const char *name, const char *text)
{
    tmpdir_write(tmpdir_path(w->dir, name), text, strlen(text));
}

/* what a directory with this chat template makes of a sample */
static void expect_media(const char *jinja, const char *token, const char *item_text,
                         const char *want)
{
    struct world w;
    json_t *item = json_loads(item_text, 0, NULL);
    char *got = NULL;

    open_world(&w);
    put_text(&w, "chat_template.jinja", jinja);
    open_tokenizer(&w);
    if (cs_template_choose(NULL, w.dir, w.tok, w.arena, &w.chat, &w.err) != CS_OK)
        fail_msg("%s", w.err.text);
    got = render_item(&w.chat, item, token, false);
    if (got == NULL || strcmp(got, want) != 0)
        fail_msg("%s\nwanted:\n%s", got != NULL ? got : "(refused)", want);
    free(got);
    json_decref(item);
    close_world(&w);
}

#define EACH(body)                                                                                 \
    "{% for m in messages %}" body                                                                 \
    "{% for c in m['content'] %}{% if c['type'] == 'image' %}<image>{% elif c['type'] == 'video' " \
    "%}<video>{% elif c['type'] == 'audio' %}{% set n.i = n.i + 1 %}Audio {{ n.i }}: "             \
    "<|audio|>\n{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>\n{% endfor %}"
#define COUNTED "{% set n = namespace(i=0) %}" EACH("<|im_start|>{{ m['role'] }}\n")
#define SPACED                                                                                     \
    "{% set n = namespace(i=0) %}" EACH("{{ m['role'] | capitalize }}{% if m['content'][0]['type'" \
                                        "] == 'image' %}:{% else %}: {% endif %}")
#define ASKING(a, b)                                                                               \
    "{\"messages\":[{\"role\":\"user\",\"content\":[" a                                            \
    "]},{\"role\":\"assistant\",\"content\":\"x\"},"                                               \
    "{\"role\":\"user\",\"content\":[" b "]},{\"role\":\"assistant\",\"content\":\"y\"}]}"
#define IMAGE "{\"type\":\"image\",\"image\":\"a.png\"}"
#define WORD  "{\"type\":\"text\",\"text\":\"q\"}"

/* "Audio 2: " of the second sound of a conversation, as Qwen2-Audio; no space between a role and a picture, but
 * one before a text or a video, as SmolVLM */
static void media_are_counted_and_spaced_as_the_template_does(void **state)
{
    (void)state;
    expect_media(
        COUNTED, "<|audio|>",
        "{\"images\":[\"a\",\"b\",\"c\"],\"messages\":[{\"role\":\"user\",\"content\":"
        "\"<|audio|>q<|audio|>\"},{\"role\":\"assistant\",\"content\":\"x\"},{\"role\":"
        "\"user\",\"content\":\"<|audio|>r\"},{\"role\":\"assistant\",\"content\":\"y\"}]}",
        "<|im_start|>user\nAudio 1: <|audio|>\nqAudio 2: <|audio|>\n<|im_end|>\n"
        "<|im_start|>assistant\nx<|im_end|>\n<|im_start|>user\nAudio 3: <|audio|>\nr"
        "<|im_end|>\n<|im_start|>assistant\ny<|im_end|>\n");
    expect_media(SPACED, "<image>", ASKING(IMAGE "," WORD, WORD "," IMAGE),
                 "User:<image>q<|im_end|>\nAssistant: x<|im_end|>\nUser: q<image><|im_end|>\n"
                 "Assistant: y<|im_end|>\n");
}

#define FIRST                                                                                      \
    "{% for m in messages %}{{ m['role'].upper() + ': ' }}{% for c in m['content'] | "             \
    "selectattr('type', 'equalto', 'image') %}{{ '<image>\\n' }}{% endfor %}{% for c in "          \
    "m['content'"                                                                                  \
    "] | selectattr('type', 'equalto', 'text') %}{{ c['text'] }}{% endfor %}<|im_end|>{% endfor "  \
    "%}"
#define LINED                                                                                      \
    "{% for m in messages %}{{ m['role'] + ': ' }}{% for c in m['content'] %}{% if c['type'] == "  \
    "'image' %}{{ '<image>\\n' }}{% else %}{{ c['text'] }}{% endif %}{% endfor %}<|im_end|>{% "    \
    "endfor %}"
#define SAID(text)                                                                                 \
    "{\"image\":[\"a\"],\"conversations\":[{\"from\":\"human\",\"value\":\"" text                  \
    "\"},{\"from\":\"gpt\",\"value\":\"x\"}]}"

/* the line behind "<image>" in LLaVA's data is there once, whoever writes it; in parts all text counts */
static void a_line_behind_a_placeholder_is_there_once(void **state)
{
    (void)state;
    expect_media(FIRST, "<image>", SAID("<image>\\nq"),
                 "USER: <image>\nq<|im_end|>ASSISTANT: x<|im_end|>");
    expect_media(FIRST, "<image>", SAID("q\\n<image>"),
                 "USER: <image>\nq<|im_end|>ASSISTANT: x<|im_end|>");
    expect_media(FIRST, "<image>", SAID("q"), "USER: <image>\nq<|im_end|>ASSISTANT: x<|im_end|>");
    expect_media(LINED, "<image>", SAID("<image>\\nq"),
                 "user: <image>\nq<|im_end|>assistant: x<|im_end|>");
    expect_media(LINED, "<image>", SAID("q\\n<image>"),
                 "user: q\n<image>\n<|im_end|>assistant: x<|im_end|>");
    expect_media(LINED, "<image>", SAID("q<image>r"),
                 "user: q<image>\nr<|im_end|>assistant: x<|im_end|>");
    expect_media(FIRST, "<image>", ASKING(IMAGE ",{\"type\":\"text\",\"text\":\"\\nq\"}", WORD),
                 "USER: <image>\n\nq<|im_end|>ASSISTANT: x<|im_end|>USER: q<|im_end|>ASSISTANT: "
                 "y<|im_end|>");
}

#define TURNS(word)                                                                                \
    "{% for m in messages %}<|im_start|>{{ m.role }} " word                                        \
    "\n{{ m.content }}<|im_end|>\n{% endfor %}"

/* what begins a question tells whose template it was */
static void expect_source(struct world *w, const char *node_text, const char *prefix,
                          const char *source)
{
    json_t *node = node_text != NULL ? json_loads(node_text, 0, NULL) : NULL;

    open_tokenizer(w);
    if (cs_template_choose(node, w->dir, w->tok, w->arena, &w->chat, &w->err) != CS_OK)
        fail_msg("%s", w->err.text);
    assert_string_equal(w->chat.turn[CS_TURN_USER].prefix, prefix);
    assert_non_null(strstr(w->chat.source, source));
    json_decref(node);
}

static void files_have_an_order_and_the_job_comes_first(void **state)
{
    struct world w;

    (void)state;
    open_world(&w);
    expect_source(&w, NULL, "<|im_start|>user\n", "default");
    assert_string_equal(w.chat.name, "chatml");
    put_json(w.dir, "tokenizer_config.json",
             json_pack("{s:[{s:s,s:s},{s:s,s:s}]}", "chat_template", "name", "tool_use", "template",
                       TURNS("tool"), "name", "default", "template", TURNS("list")));
    expect_source(&w, NULL, "<|im_start|>user list\n", "tokenizer_config.json");
    put_json(w.dir, "chat_template.json", json_pack("{s:s}", "chat_template", TURNS("json")));
    expect_source(&w, NULL, "<|im_start|>user json\n", "chat_template.json");
    put_text(&w, "chat_template.jinja", TURNS("jinja"));
    expect_source(&w, NULL, "<|im_start|>user jinja\n", "chat_template.jinja");
    expect_source(&w, "{\"name\":\"plain\"}", "", "the job");
    expect_source(&w, "{\"train_on\":\"last\",\"default_system\":\"x\"}",
                  "<|im_start|>user jinja\n", "chat_template.jinja");
    assert_true(w.chat.is_last_only);
    assert_true(w.chat.has_default_system);
    put_text(&w, "chat_template.jinja", "{% call x() %}{% endcall %}");
    open_tokenizer(&w);
    assert_int_equal(cs_template_choose(NULL, w.dir, w.tok, w.arena, &w.chat, &w.err),
                     CS_UNSUPPORTED);
    assert_non_null(strstr(w.err.text, "chat_template.jinja"));
    assert_non_null(strstr(w.err.text, "give the data a template"));
    put_json(
        w.dir, "tokenizer_config.json",
        json_pack("{s:[{s:s,s:s}]}", "chat_template", "name", "rag", "template", TURNS("rag")));
    assert_int_equal(remove(tmpdir_path(w.dir, "chat_template.jinja")), 0);
    assert_int_equal(remove(tmpdir_path(w.dir, "chat_template.json")), 0);
    assert_int_equal(cs_template_choose(NULL, w.dir, w.tok, w.arena, &w.chat, &w.err), CS_CORRUPT);
    close_world(&w);
}

/* answers train from where the prompt ends to the token that ends them */
static void what_trains_is_what_the_model_writes(void **state)
{
    static const char template[] =
        "{% for m in messages %}{{ m.role }}: {{ m.content }}</s>\n{% endfor %}"
        "{% if add_generation_prompt %}assistant:{% endif %}";
    const struct cs_template_turn *answer = NULL;
    struct world w;

    (void)state;
    open_world(&w);
    put_text(&w, "chat_template.jinja", template);
    expect_source(&w, NULL, "user: ", "jinja");
    answer = &w.chat.turn[CS_TURN_ASSISTANT];
    assert_string_equal(answer->prefix, "assistant:");
    assert_string_equal(answer->lead, " ");
    assert_string_equal(answer->end, "</s>");
    assert_string_equal(answer->suffix, "\n");
    close_world(&w);
}

/* a template of a stranger: nested, endless, huge */
static void hostile_templates_end(void **state)
{
    static const char *const texts[] = {
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}",
        "{{ {{ {% if %}",
        "{%",
        "{{ 'a",
        "{# x",
        "{{ 1 // 0 }}",
        "{{ messages[99999999999999999999] }}",
        "{{ x.y.z }}",
        "{% set a.b = 1 %}",
        "{{ messages[::2] }}",
        "{% for a, b in messages %}{% endfor %}",
        "{{ -messages }}",
        "{{ 'a' * 99999999 }}",
        "{% endfor %}",
        "{{ }}",
        "{{ (1 }}",
        "\xff\xfe{{ '\xff' }}",
    };
    struct cs_buf deep = {0};
    struct world w;

    (void)state;
    open_world(&w);
    open_tokenizer(&w);
    for (size_t i = 0; i < CS_ARRAY_LEN(texts); i++)
        assert_int_not_equal(
            cs_template_of_jinja(texts[i], strlen(texts[i]), w.tok, w.arena, &w.chat, &w.err),
            CS_OK);
    cs_buf_adds(&deep, "{{ ");
    for (int i = 0; i < 100000; i++)
        cs_buf_adds(&deep, i % 2 ? "(" : "-");
    cs_buf_adds(&deep, "}}");
    assert_int_equal(cs_template_of_jinja(deep.data, deep.len, w.tok, w.arena, &w.chat, &w.err),
                     CS_LIMIT);
    cs_buf_free(&deep);
    close_world(&w);
}

static void an_exception_without_words_is_told(void **state)
{
    static const char text[] = "{{ raise_exception('') }}";
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = chat_tokenizer_json();
    char *json = json_dumps(root, JSON_COMPACT);
    struct cs_tokenizer *tok = NULL;
    struct cs_template chat;
    struct cs_err err = {0};

    (void)state;
    assert_int_equal(cs_tokenizer_parse(json, strlen(json), "t", &tok, &err), CS_OK);
    assert_int_not_equal(cs_template_of_jinja(text, strlen(text), tok, arena, &chat, &err), CS_OK);
    assert_non_null(strstr(err.text, "it raises an exception"));
    cs_tokenizer_close(tok);
    free(json);
    json_decref(root);
    cs_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_those_of_transformers),
        cmocka_unit_test(built_in_templates_are_the_models_own),
        cmocka_unit_test(thoughts_train_where_the_model_writes_them),
        cmocka_unit_test(system_texts_stand_where_the_template_has_them),
        cmocka_unit_test(media_are_counted_and_spaced_as_the_template_does),
        cmocka_unit_test(a_line_behind_a_placeholder_is_there_once),
        cmocka_unit_test(files_have_an_order_and_the_job_comes_first),
        cmocka_unit_test(what_trains_is_what_the_model_writes),
        cmocka_unit_test(hostile_templates_end),
        cmocka_unit_test(an_exception_without_words_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
