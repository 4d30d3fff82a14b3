/* Draws why a job failed. */
#include "console/views/failure.h"

#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/draw/widget.h"
#include "core/wire/job_state.h"

enum { AT = 12, MOST_REASON = 8, MOST_LAST = 8 };

bool cs_failure_is(const struct cs_store_job *job)
{
    return cs_job_state_mood(job->state) == CS_MOOD_BAD;
}

/* clang-format off */
static const struct {
    const char *word, *advice;
} advices[] = { /* the first that the reason has holds; small letters match both cases */
    {"nan|not finite|non-finite|diverge", "a smaller optimizer.lr or more warmup_steps; look at the samples of that step with 'data check'"},
    {"out of memory|no memory|memory of",  "what fits: cs.search in place of cs.plan and 'plan SCRIPT --top 5'; fewer slots or shorter seq_tokens, more stages, or freeze more"},
    {"no space|disk is full",              "make room in the directory of the job, then let it go on"},
    {"signal 9",                           "somebody or the kernel killed it: look for the OOM killer in 'dmesg'; then let it go on"},
    {"signal (4|6|7|8|11)",                "a fault of the program: keep the directory of the job for a report; 'selftest family' checks the machine"},
    {"stands still|does not answer|timed out|deadline", "look at what the last actions waited for; a rank without data waits for the feeder"},
    {"sample|picture|image|\\.json|\\.jsonl", "'data check SCRIPT' says what is wrong with each sample"},
    {"checkpoint",                         "'inspect CHECKPOINT' says what is whole; resume --from-start begins anew"},
    {"safetensors|config\\.json|tokenizer", "'model check DIR' says what the model's directory lacks"},
    {"runner",                             "let it go on; if it ends again, look at logs/runner.err in the directory of the job"},
    {"",                                   "the logs say what every process did last"},
};

/* clang-format on */

const char *cs_failure_advice(const char *reason)
{
    size_t i = 0;
    for (bool is_found = false; !is_found && i + 1 < CS_ARRAY_LEN(advices); i += !is_found) {
        struct cs_needle needle;
        cs_needle_make(&needle, advices[i].word);
        is_found = cs_needle_match(&needle, reason, NULL, NULL);
        cs_needle_free(&needle);
    }
    return advices[i].advice;
}

struct panel {
    const struct cs_screen *screen;
    struct cs_area area;
    int y;
};

static void put(struct panel *p, const char *label, enum cs_style style, int rows, const char *text)
{
    const int room = p->area.h - p->y;
    cs_draw(p->area, 1, p->y, CS_STYLE_TITLE, label);
    if (room > 0)
        p->y += cs_draw_wrap(p->area, AT, p->y, p->area.w - AT - 1, rows < room ? rows : room,
                             style, p->screen->glyphs, text);
}

/* what the runner noted of every rank when it happened */
static void put_last(struct panel *p, const struct cs_store *store)
{
    static const char begin[] = "last action of ";
    int n = 0;
    for (int i = store->notes.n - 1; i >= 0 && n < MOST_LAST; i--)
        n += strncmp(cs_store_line(&store->notes, i)->text, begin, sizeof begin - 1) == 0;
    for (int i = 0, seen = 0; i < store->notes.n; i++) {
        const struct cs_store_line *note = cs_store_line(&store->notes, i);
        if (strncmp(note->text, begin, sizeof begin - 1) != 0)
            continue;
        put(p, seen == 0 ? "last" : "", CS_STYLE_TEXT, 1, note->text + sizeof begin - 1);
        if (++seen == n)
            break;
    }
}

static void put_keys(struct panel *p, const struct cs_store *store, const struct cs_store_job *job)
{
    struct cs_fields fields = {0};
    if (!p->screen->is_read_only && !store->is_replay)
        cs_fields_add(&fields, CS_STYLE_KEY, 0, "R resume");
    cs_fields_add(&fields, CS_STYLE_KEY, 0, "%s",
                  job->id == store->job ? "7 logs" : "Enter opens it, then 7 logs");
    cs_fields_add(&fields, CS_STYLE_DIM, 1, "cornstarch-console resume %lld", (long long)job->id);
    cs_fields_draw(&fields, p->area, AT, p->y++);
}

int cs_failure_draw(const struct cs_store *store, const struct cs_screen *screen,
                    const struct cs_store_job *job, struct cs_area area)
{
    struct panel p = {screen, area, 1};
    char title[160], from[120] = "no checkpoint: it begins anew at step 0";
    if (!cs_failure_is(job) || area.h < 4)
        return 0;
    cs_fill(area, 0, 0, area.w, CS_STYLE_DIM, cs_glyph(screen->glyphs, CS_GLYPH_HLINE));
    snprintf(title, sizeof title, " %lld %.60s: why it %s ", (long long)job->id, job->name,
             strcmp(job->state, "LOST") == 0 ? "was lost" : "failed");
    cs_draw_cut(area, 2, 0, area.w - 4, CS_STYLE_BAD, screen->glyphs, title);
    put(&p, "reason", CS_STYLE_BAD, MOST_REASON,
        job->reason[0] ? job->reason : "it left no reason behind");
    if (job->id == store->job)
        put_last(&p, store);
    if (job->checkpoint_step >= 0)
        snprintf(from, sizeof from, "the checkpoint of step %lld%s",
                 (long long)job->checkpoint_step,
                 job->step > job->checkpoint_step + 1 ? "; what was trained after it is lost" : "");
    put(&p, "go on from", CS_STYLE_TEXT, 2, from);
    put(&p, "try", CS_STYLE_TEXT, 3, cs_failure_advice(job->reason));
    put_keys(&p, store, job);
    return p.y;
}

const struct cs_store_job *cs_failure_to_tell(const struct cs_store *store,
                                              const struct cs_screen *screen)
{
    const struct cs_store_job *job = cs_store_selected(store);
    if (job && cs_failure_is(job) && job->id != screen->dismissed)
        return job;
    for (int i = 0; i < store->n_jobs && screen->opened_ns > 0; i++)
        if (cs_failure_is(&store->jobs[i]) && store->jobs[i].ended_ns > screen->opened_ns &&
            store->jobs[i].id > screen->dismissed)
            return &store->jobs[i];
    return NULL;
}
