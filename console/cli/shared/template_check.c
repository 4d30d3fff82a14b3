/* Writes the samples down with their texts, has Python render them too, and reports what it found. */
#include "console/cli/shared/template_check.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/io.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/wire/wire.h"
#include "input/chat/own.h"

extern char **environ;

/* Reads {template, names} and then a sample a line; writes one line of JSON. The environment is that of
 * transformers' apply_chat_template. */
static const char script[] =
    "import json, sys\n"
    "from jinja2 import nodes\n"
    "from jinja2.ext import Extension, loopcontrols\n"
    "from jinja2.exceptions import TemplateError\n"
    "from jinja2.sandbox import ImmutableSandboxedEnvironment\n"
    "class Generation(Extension):\n"
    "    tags = {'generation'}\n"
    "    def parse(self, parser):\n"
    "        line = next(parser.stream).lineno\n"
    "        body = parser.parse_statements(['name:endgeneration'], drop_needle=True)\n"
    "        return nodes.CallBlock(self.call_method('_same'), [], [], body).set_lineno(line)\n"
    "    def _same(self, caller):\n"
    "        return caller()\n"
    "def refuse(message):\n"
    "    raise TemplateError(message)\n"
    "def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):\n"
    "    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, "
    "sort_keys=sort_keys)\n"
    "env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, "
    "extensions=[Generation, loopcontrols])\n"
    "env.filters['tojson'] = tojson\n"
    "env.globals['raise_exception'] = refuse\n"
    "env.globals['strftime_now'] = lambda form: "
    "__import__('datetime').datetime.now().strftime(form)\n"
    "def in_parts(m):\n"
    "    c = m['content']\n"
    "    return {**m, 'content': [{'type': 'text', 'text': c}] if isinstance(c, str) else c}\n"
    "with open(sys.argv[1], encoding='utf-8') as lines:\n"
    "    head = json.loads(next(lines))\n"
    "    template, n, parts = env.from_string(head['template']), 0, False\n"
    "    def render(messages):\n"
    "        return template.render(messages=messages, tools=None, documents=None, "
    "add_generation_prompt=False, **head['names'])\n"
    "    for line in lines:\n"
    "        sample = json.loads(line)\n"
    "        theirs, why = None, None\n"
    "        for way in ([parts, not parts]):\n"
    "            try:\n"
    "                messages = sample['messages']\n"
    "                theirs = render([in_parts(m) for m in messages] if way else messages)\n"
    "            except Exception as e:\n"
    "                why = str(e) or type(e).__name__\n"
    "                continue\n"
    "            if theirs == sample['text']:\n"
    "                parts = way\n"
    "                break\n"
    "        if theirs != sample['text']:\n"
    "            print(json.dumps({'compared': n, 'sample': sample['sample'], 'ours': "
    "sample['text'], "
    "'theirs': theirs, 'why': why}))\n"
    "            sys.exit(0)\n"
    "        n += 1\n"
    "    print(json.dumps({'compared': n}))\n";

/* --- the samples ------------------------------------------------------------------------------ */

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
                          json_pack("{s:I,s:o,s:o}", "sample", (json_int_t)index, "messages",
                                    messages_of(source, record), "text",
                                    json_stringn(cs_buf_str(&rendering.text), rendering.text.len)),
                          err);
    cs_rendering_free(&rendering);
    cs_record_free(record);
    return status;
}

static enum cs_status put_all(const struct cs_job_data *d, const char *template_, FILE *file,
                              struct cs_err *err)
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

/* --- Python ----------------------------------------------------------------------------------- */

/* Runs the script on the file; its standard output goes to `out`, an open file. */
static enum cs_status run_python(const char *path, FILE *out, struct cs_err *err)
{
    const char *const argv[] = {"python3", "-I", "-c", script, path, NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid = -1;
    int how = 0, code = 0;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, fileno(out), STDOUT_FILENO);
    code = posix_spawnp(&pid, "python3", &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (code != 0)
        return cs_fail(err, CS_UNSUPPORTED, "python3, which renders the model's template: %s",
                       strerror(code));
    while (waitpid(pid, &how, 0) == -1)
        continue;
    if (!WIFEXITED(how) || WEXITSTATUS(how) != 0)
        return cs_fail(err, CS_UNSUPPORTED,
                       "python3 could not render the model's template (it needs jinja2: "
                       "python3-jinja2 of Debian)");
    return CS_OK;
}

static enum cs_status compare_with(const struct cs_job_data *d, const char *template_,
                                   json_t **found, struct cs_err *err)
{
    FILE *samples = tmpfile(), *answer = tmpfile();
    char path[64];
    enum cs_status status = CS_OK;

    if (samples == NULL || answer == NULL)
        status = cs_fail_errno(err, "a temporary file");
    if (status == CS_OK)
        status = put_all(d, template_, samples, err);
    if (status == CS_OK) {
        snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)getpid(), fileno(samples));
        status = run_python(path, answer, err);
    }
    if (status == CS_OK) {
        rewind(answer);
        *found = json_loadf(answer, 0, NULL);
        if (*found == NULL)
            status = cs_fail(err, CS_CORRUPT, "python3 answered what is no JSON");
    }
    if (samples != NULL)
        fclose(samples);
    if (answer != NULL)
        fclose(answer);
    return status;
}

/* --- what it found ---------------------------------------------------------------------------- */

/* A little of a text around byte `at`, in one line. */
static void excerpt(struct cs_buf *out, const char *text, size_t at)
{
    size_t n = strlen(text), from = at > 30 ? at - 30 : 0, to = at + 60 < n ? at + 60 : n;

    while (from > 0 && ((unsigned char)text[from] & 0xc0) == 0x80)
        from--;
    while (to < n && ((unsigned char)text[to] & 0xc0) == 0x80)
        to++;
    cs_str_escape(out, text + from, to - from, true);
}

static enum cs_status differ(const json_t *found, struct cs_err *err)
{
    const char *ours = cs_msg_str(found, "ours", ""), *theirs = cs_msg_str(found, "theirs", NULL);
    struct cs_buf text = {0};
    size_t at = 0;

    cs_buf_addf(&text, "sample %lld is rendered otherwise than by the model's own chat template: ",
                (long long)cs_msg_int(found, "sample", 0));
    if (theirs == NULL) {
        cs_buf_addf(&text, "that refuses it (%.200s)", cs_msg_str(found, "why", ""));
    } else {
        while (ours[at] != '\0' && ours[at] == theirs[at])
            at++;
        cs_buf_adds(&text, "here \"");
        excerpt(&text, ours, at);
        cs_buf_addf(&text, "\", there \"");
        excerpt(&text, theirs, at);
        cs_buf_addf(&text, "\" (from byte %zu on)", at);
    }
    (void)!cs_fail(err, CS_INVALID, "%s", cs_buf_str(&text));
    cs_buf_free(&text);
    return CS_INVALID;
}

enum cs_status cs_template_compare(const struct cs_job_data *d, json_t *set, struct cs_err *err)
{
    const char *text = NULL, *file = NULL;
    json_t *found = NULL;
    enum cs_status status = CS_OK;

    CS_TRY(cs_template_text(cs_source_tokenizer_dir(d->source), d->arena, &text, &file, err));
    if (text == NULL)
        return cs_fail(err, CS_UNSUPPORTED, "%s has no chat template to compare with",
                       cs_source_tokenizer_dir(d->source));
    CS_TRY(compare_with(d, text, &found, err));
    if (set != NULL) {
        cs_msg_set_str(found, "file", file);
        cs_msg_set(set, "template", json_incref(found));
    }
    if (json_object_get(found, "sample") != NULL)
        status = differ(found, err);
    else if (set == NULL)
        cs_say(stdout, "  template %lld samples have the text that %s makes of them\n",
               (long long)cs_msg_int(found, "compared", 0), file);
    json_decref(found);
    return status;
}
