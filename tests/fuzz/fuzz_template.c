/* Fuzz target: chat templates. The first byte says whether the rest is a template as it is, or which of
 * tests/golden/chats.json it changes: bytes, words of the language put in, parts left out or taken from
 * another. It is rendered, and made a table; what a table renders is tiled by its segments. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/edit.h"
#include "input/chat/jinja/jinja.h"
#include "input/chat/own.h"
#include "support/chat.h"
#include "support/tmpdir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = {"{{ ",
                                    " }}",
                                    "{% ",
                                    " %}",
                                    "{%- ",
                                    " -%}",
                                    "if ",
                                    "elif ",
                                    "else",
                                    "endif",
                                    "for m in messages",
                                    "endfor",
                                    "set x = ",
                                    "set ns.x = ",
                                    "namespace(x=1)",
                                    "macro f(a, b=2)",
                                    "endmacro",
                                    "f(1)",
                                    "loop.index0",
                                    "loop.last",
                                    "loop.first",
                                    "loop.previtem",
                                    "message",
                                    "messages",
                                    ".content",
                                    "['role']",
                                    "[-1]",
                                    "[1:]",
                                    "[::-1]",
                                    "[:0]",
                                    "|trim",
                                    "|length",
                                    "|tojson",
                                    "|join(',')",
                                    "|selectattr('role')",
                                    "|default('x')",
                                    "|upper",
                                    "|replace('a', 'b')",
                                    ".split('x')[-1]",
                                    ".strip()",
                                    ".startswith('a')",
                                    " is defined",
                                    " is none",
                                    " is string",
                                    " is mapping",
                                    " not ",
                                    " and ",
                                    " or ",
                                    " in ",
                                    " ~ ",
                                    " + ",
                                    " - ",
                                    " * ",
                                    " // ",
                                    " % ",
                                    " ** ",
                                    " == ",
                                    " != ",
                                    " < ",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    "{",
                                    "}",
                                    "'",
                                    "\"",
                                    "{#",
                                    "#}",
                                    "raise_exception('x')",
                                    "strftime_now('%d')",
                                    "range(5)",
                                    "range(1000000000)",
                                    "break",
                                    "continue",
                                    "true",
                                    "none",
                                    "9223372036854775807",
                                    "-1",
                                    "1e999",
                                    "'a' * 1000000000",
                                    "generation",
                                    "endgeneration",
                                    "call",
                                    "filter upper",
                                    "endfilter",
                                    "eos_token",
                                    "bos_token",
                                    "add_generation_prompt"};

static const json_t *golden(void)
{
    static json_t *root;

    if (root == NULL)
        root = json_load_file(source_path("tests/golden/chats.json"), 0, NULL);
    fuzz_must(root != NULL);
    return root;
}

static const char *template_at(uint32_t i)
{
    const json_t *cases = json_object_get(golden(), "cases");

    return json_string_value(
        json_object_get(json_array_get(cases, i % json_array_size(cases)), "template"));
}

/* A part of `from` for the part [at, at + n) of the text. */
static void splice(struct cs_buf *text, size_t at, size_t n, const char *from, size_t n_from)
{
    struct cs_buf out = {0};

    cs_buf_add(&out, text->data, at);
    cs_buf_add(&out, from, n_from);
    cs_buf_add(&out, text->data + at + n, text->len - at - n);
    cs_buf_free(text);
    *text = out;
}

static void edit(struct cs_buf *text, struct fuzz_bytes *bytes)
{
    while (bytes->n > 0 && text->len > 0) {
        const uint32_t what = fuzz_take(bytes, 4), at = fuzz_take(bytes, (uint32_t)text->len);
        const size_t left = text->len - at;
        const char *other = NULL;
        size_t n = 0, from = 0;

        switch (what) {
        case 0:
            text->data[at] = (char)fuzz_take(bytes, 256);
            break;
        case 1:
            other = words[fuzz_take(bytes, (uint32_t)CS_ARRAY_LEN(words))];
            splice(text, at, 0, other, strlen(other));
            break;
        case 2:
            n = fuzz_take(bytes, 256);
            splice(text, at, n < left ? n : left, "", 0);
            break;
        default:
            other = template_at(fuzz_take(bytes, 256));
            from = fuzz_take(bytes, (uint32_t)strlen(other));
            n = fuzz_take(bytes, 256);
            splice(text, at, 0, other + from, n < strlen(other + from) ? n : strlen(other + from));
        }
    }
}

static void render(const char *text, size_t n)
{
    struct cs_jinja *jinja = NULL;
    struct cs_err err = {0};

    if (cs_jinja_parse(text, n, &jinja, &err) != CS_OK) {
        fuzz_must(jinja == NULL && err.text[0] != '\0');
        return;
    }
    json_t *variables =
        json_pack("{s:[{s:s, s:s}, {s:s, s:[{s:s, s:s}, {s:s}]}, {s:s, s:s}], s:b, s:s, s:s}",
                  "messages", "role", "system", "content", "s", "role", "user", "content", "type",
                  "text", "text", "q", "type", "image", "role", "assistant", "content", "a",
                  "add_generation_prompt", 1, "bos_token", "<s>", "eos_token", "</s>");
    struct cs_buf out = {0};
    if (cs_jinja_render(jinja, variables, &out, &err) != CS_OK)
        fuzz_must(err.text[0] != '\0');
    cs_buf_free(&out);
    json_decref(variables);
    cs_jinja_free(jinja);
}

static void must_tile(const struct cs_rendering *r)
{
    size_t at = 0;

    for (size_t i = 0; i < r->n; i++) {
        fuzz_must(r->segments[i].begin == at && r->segments[i].end >= at);
        at = r->segments[i].end;
    }
    fuzz_must(at == r->text.len);
}

static const struct cs_tokenizer *tokenizer(void)
{
    static struct cs_tokenizer *tok;

    if (tok == NULL) {
        json_t *root = chat_tokenizer_json();
        char *text = json_dumps(root, JSON_COMPACT);
        fuzz_must(cs_tokenizer_parse(text, strlen(text), "tok", &tok, NULL) == CS_OK);
        free(text);
        json_decref(root);
    }
    return tok;
}

static void make_table(const char *text, size_t n)
{
    static const struct cs_part parts[] = {
        {.encoder = -1, .text = "q", .len = 1},
        {.encoder = -1, .text = "a", .len = 1}
    };
    static struct cs_turn turns[] = {
        {.role = CS_TURN_USER,      .parts = (struct cs_part *)(uintptr_t)&parts[0], .n_parts = 1},
        {.role = CS_TURN_ASSISTANT, .parts = (struct cs_part *)(uintptr_t)&parts[1], .n_parts = 1}
    };
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_record record = {.arena = arena, .turns = turns, .n_turns = 2};
    struct cs_template chat = {0};
    struct cs_rendering rendering = {0};
    struct cs_err err = {0};

    if (cs_template_of_jinja(text, n, tokenizer(), arena, &chat, &err) != CS_OK)
        fuzz_must(err.text[0] != '\0');
    else if (cs_template_render(&chat, &record, NULL, 0, &rendering, &err) == CS_OK)
        must_tile(&rendering);
    cs_rendering_free(&rendering);
    cs_arena_free(arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data + 1, size - 1};
    struct cs_buf text = {0};

    if (size == 0)
        return 0;
    if (data[0] < 32) {
        cs_buf_add(&text, (const char *)data + 1, size - 1);
    } else {
        cs_buf_adds(&text, template_at(data[0]));
        edit(&text, &bytes);
    }
    render(cs_buf_str(&text), text.len);
    make_table(cs_buf_str(&text), text.len);
    cs_buf_free(&text);
    return 0;
}
