/* Writes the samples down with their texts, has Python render them too, and reports what it found. */
#include "console/cli/shared/check/template_check.h"

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "console/cli/shared/check/template_samples.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "input/chat/own.h"

extern char **environ;

/* Reads {template, names} and then a sample a line; writes one line of JSON. The environment is that of
 * transformers' apply_chat_template. Templates take contents as they are, in parts, or as texts alone: what
 * one way gives is tried first with the next sample. */
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
    "def in_parts(m, text):\n"
    "    c = m['content']\n"
    "    return {**m, 'content': [{'type': 'text', 'text': c}] if isinstance(c, str) else c}\n"
    "ways = [lambda m, text: m, in_parts, lambda m, text: {**m, 'content': text}]\n"
    "with open(sys.argv[1], encoding='utf-8') as lines:\n"
    "    head = json.loads(next(lines))\n"
    "    template, n = env.from_string(head['template']), 0\n"
    "    def render(messages):\n"
    "        return template.render(messages=messages, tools=None, documents=None, "
    "add_generation_prompt=False, **head['names'])\n"
    "    for line in lines:\n"
    "        sample = json.loads(line)\n"
    "        theirs, why = None, None\n"
    "        for way in list(ways):\n"
    "            try:\n"
    "                theirs = render([way(m, t) for m, t in zip(sample['messages'], "
    "sample['texts'])])\n"
    "            except Exception as e:\n"
    "                why = str(e) or type(e).__name__\n"
    "                continue\n"
    "            if theirs == sample['text']:\n"
    "                ways.remove(way)\n"
    "                ways.insert(0, way)\n"
    "                break\n"
    "        if theirs != sample['text']:\n"
    "            print(json.dumps({'compared': n, 'sample': sample['sample'], 'ours': "
    "sample['text'], "
    "'theirs': theirs, 'why': why}))\n"
    "            sys.exit(0)\n"
    "        n += 1\n"
    "    print(json.dumps({'compared': n}))\n";

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
        status = cs_template_put_samples(d, template_, samples, err);
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
        cs_say(stdout, "  template %lld %s the text that %s makes\n",
               (long long)cs_msg_int(found, "compared", 0),
               CS_NOUN(cs_msg_int(found, "compared", 0), "sample has", "samples have"), file);
    json_decref(found);
    return status;
}
