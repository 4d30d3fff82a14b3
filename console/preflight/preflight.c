/* Looks at a job before anybody works on it. */
#include "console/preflight/preflight.h"

#include <math.h>
#include <string.h>

#include "console/preflight/findings.h"
#include "core/base/system/cores.h"
#include "core/base/units.h"
#include "core/data/data_threads.h"
#include "core/plan/cost/links/links.h"
#include "core/plan/cost/slot_fill.h"
#include "core/plan/make/planner.h"
#include "core/plan/plan_schedule.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "input/data/early.h"
#include "input/data/record/record_keys.h"
#include "input/documents/documents.h"
#include "store/ckpt/ckpt_dir.h"

/* The lowering of a plan is what workers do first: what it refuses is refused here. */
static enum cs_status check_runs(const struct cs_preflight_made *made, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_program *program = NULL;
    const struct cs_plan *plan = made->plan;
    int slots = cs_plan_own_slots(plan, plan->slots);
    enum cs_status status = cs_program_make(plan, made->graph, slots, false, arena, &program, err);
    if (status == CS_OK && made->spec->has_eval)
        status = cs_program_make(plan, made->graph, slots, true, arena, &program, err);
    cs_arena_free(arena);
    if (status == CS_OK)
        return CS_OK;
    if (err)
        err->status = CS_PLAN;
    return cs_wrap(err, CS_PLAN, "the job cannot run");
}

/* Lines of a text into the notes, or the warnings where they begin so. */
static void take_lines(struct cs_preflight *out, const char *text)
{
    static const char mark[] = "warning: ";
    while (*text) {
        size_t n = strcspn(text, "\n");
        bool is_warning = strncmp(text, mark, sizeof mark - 1) == 0;
        size_t skip = is_warning ? sizeof mark - 1 : 0;
        json_t *line = json_stringn(text + skip, n - skip);
        if (line)
            json_array_append_new(is_warning ? out->warnings : out->notes, line);
        text += n + (text[n] == '\n');
    }
}

/* Slots of so many samples like those that were looked at; more than fit are in more slots. */
static struct cs_slot_fill fill_of(const struct cs_preflight_made *made,
                                   const struct cs_early *early)
{
    const struct cs_plan *plan = made->plan;
    const double rows = (double)early->mean_rows, seq = plan->budget.seq_tokens,
                 samples = (double)made->spec->batch_samples / plan->slots,
                 fits = fmax(1, fmin(samples, seq / rows)), good = (double)early->n_good;
    struct cs_slot_fill fill = {.rows = fmin(fmax(samples, 1) * rows, seq)};
    fill.document = fmin(fill.rows, fmax(rows, early->mean_squares / rows));
    for (int e = 0; e < plan->budget.n_encoders; e++)
        fill.items[e] =
            fits * (double)early->item_rows[e] / good / fmax(1, plan->budget.enc[e].rows);
    return fill;
}

/* A step with slots that are as full as the data make them, 0: not known. Of samples that need more slots than are
 * planned all that many are full. */
static enum cs_status time_step(const struct cs_preflight_made *made, const struct cs_early *early,
                                struct cs_arena *arena, int64_t *out, struct cs_err *err)
{
    const struct cs_plan *plan = made->plan;
    int32_t *permille = CS_NEW_ARRAY(arena, int32_t, plan->n_stages + 1);
    struct cs_cluster cluster;
    *out = 0;
    if (early->mean_rows < 1 || plan->slots < 1)
        return CS_OK;
    const struct cs_slot_fill fill = fill_of(made, early);
    const double rows = (double)early->mean_rows * (double)made->spec->batch_samples / plan->slots,
                 more = fmax(1, rows / plan->budget.seq_tokens);
    CS_TRY(cs_spec_cluster(made->spec, made->here, arena, &cluster, err));
    CS_TRY(
        cs_slot_fill_permille(made->spec, made->graph, plan, made->device, &fill, permille, err));
    const struct cs_sim_options sim = {.stage_permille = permille};
    struct cs_plan filled = *plan;
    CS_TRY(cs_plan_predict_with(&filled, made->graph, &cluster, &sim, arena, err));
    *out = (int64_t)((double)filled.predicted_step_ns * more);
    return CS_OK;
}

/* Plans count on full slots: of a step that fills many more, or nothing but text
 * that fills few, another step is planned than there will be. Items fill slots too, so that more may be needed. */
static void weigh_steps(const struct cs_preflight_made *made, int64_t sample_rows,
                        struct cs_preflight *out)
{
    const int64_t samples = made->spec->batch_samples, slots = made->plan->slots,
                  seq = made->plan->budget.seq_tokens, dp = made->spec->dp > 1 ? made->spec->dp : 1;
    const int64_t rows = sample_rows * samples, least = (rows + seq - 1) / seq,
                  a_slot = sample_rows > 0 && sample_rows < seq ? seq / sample_rows : 1,
                  most = (samples + a_slot - 1) / a_slot; /* of text */
    const bool is_short = 4 * least > 5 * slots,
               is_wide = made->graph->n_encoders == 0 && 4 * most < 3 * slots;
    int64_t wanted = ((is_short ? least : most) + dp - 1) / dp * dp;
    if (wanted > CS_STEP_PACK_SLOTS)
        wanted = CS_STEP_PACK_SLOTS / dp * dp;
    out->tokens_per_step = (double)rows;
    if (is_short || is_wide)
        cs_preflight_warn(
            out,
            "%lld sample%s of about %lld tokens fill at %s %lld slot%s of %lld a step, "
            "and the plan is made for %lld: give slots = %lld",
            (long long)samples, CS_PLURAL(samples), (long long)sample_rows,
            is_short ? "least" : "most", (long long)(is_short ? least : most),
            CS_PLURAL((is_short ? least : most)), (long long)seq, (long long)slots,
            (long long)wanted);
}

/* GPUs wait where threads prepare fewer samples than they train. On CPU ranks both share the cores, and the
 * prediction is too rough for that. */
static void check_rate(const struct cs_preflight_made *made, const struct cs_early *early,
                       struct cs_preflight *out)
{
    const bool is_gpu = strcmp(made->device->name, "cpu") != 0;
    const int32_t cores = cs_usable_cores() > 0 ? cs_usable_cores() : 1;
    const int32_t threads =
        cs_data_threads(made->spec->data_threads, is_gpu, cs_plan_world(made->plan), cores);
    const double at_once = threads < cores ? threads : cores;
    const double prepared = 1e9 * at_once / (double)early->prepare_ns;
    const double trained = 1e9 * (double)made->spec->batch_samples / (double)out->data_step_ns;
    char one[CS_UNITS_CAP], have[CS_UNITS_CAP], want[CS_UNITS_CAP];

    if (!is_gpu || early->prepare_ns <= 0 || out->data_step_ns <= 0 || prepared > trained)
        return;
    cs_duration_print(one, sizeof one, (uint64_t)early->prepare_ns);
    cs_rate_print(have, sizeof have, prepared, "samples");
    cs_rate_print(want, sizeof want, trained, "samples");
    cs_preflight_warn(
        out,
        "ranks will wait for data: %d thread%s on the %d core%s here prepare%s about %s (%s each, "
        "by the first ones), and the predicted step takes %s; %sgive smaller pictures, or keep "
        "them decoded (cache of cs.data)",
        threads, CS_PLURAL(threads), cores, CS_PLURAL(cores), threads == 1 ? "s" : "", have, one,
        want, threads < cores && threads < CS_SPEC_MAX_DATA_THREADS ? "raise data_threads, " : "");
}

/* Samples that the language model has seen none of: transformers' tokenizers warn of them, too. */
static void check_positions(const struct cs_preflight_made *made, const struct cs_early *early,
                            struct cs_preflight *out)
{
    const int32_t positions = cs_graph_positions(made->graph), seq = made->plan->budget.seq_tokens;
    const int64_t longest = early->longest < seq ? early->longest : seq;
    if (positions > 0 && longest > positions)
        cs_preflight_warn(out,
                          "the longest of the first samples takes %lld rows, and llm is made for "
                          "%d (max_position_embeddings): it may not make much of what is behind; "
                          "seq_tokens = %d leaves longer samples out",
                          (long long)early->longest, positions, positions);
}

static enum cs_status check_data(const struct cs_preflight_made *made, struct cs_arena *arena,
                                 const char *what, const struct cs_spec_data *data,
                                 struct cs_preflight *out, struct cs_err *err)
{
    struct cs_early early;
    struct cs_record_keys *keys = NULL;
    struct cs_buf text = {0};
    enum cs_status status = cs_early_look(made->spec, made->graph, &made->plan->budget, data,
                                          &out->findings, &early, err);
    if (status == CS_OK)
        status = cs_record_keys_of(made->graph, arena, &keys, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s", what);
    cs_early_text(&early, keys, &text);
    cs_early_warnings(&early, data->json, &text);
    if (data == &made->spec->data) {
        take_lines(out, cs_buf_str(&text));
        weigh_steps(made, early.mean_rows, out);
        status = time_step(made, &early, arena, &out->data_step_ns, err);
        check_rate(made, &early, out);
        check_positions(made, &early, out);
        if (early.is_all && early.n_samples < (uint64_t)made->spec->batch_samples)
            cs_preflight_warn(out,
                              "a step takes %lld sample%s, and there are %llu: each is used "
                              "more than once a step",
                              (long long)made->spec->batch_samples,
                              CS_PLURAL(made->spec->batch_samples),
                              (unsigned long long)early.n_samples);
    } else if (strstr(cs_buf_str(&text), "warning: ")) {
        cs_preflight_warn(out, "%s: %s", what, strstr(cs_buf_str(&text), "warning: ") + 9);
    }
    cs_buf_free(&text);
    return status;
}

static enum cs_status begin(const struct cs_preflight_made *made, struct cs_arena *arena,
                            struct cs_preflight *out, struct cs_err *err)
{
    *out = (struct cs_preflight){
        .notes = json_array(),
        .warnings = json_array(),
        .step_ns = made->plan->predicted_step_ns,
        .checkpoint_bytes = (int64_t)cs_ckpt_bytes(made->graph->params, made->graph->n_params),
        .memory_bytes = made->figures.peak_bytes,
        .findings = {.arena = arena}};
    return cs_documents_review_job(made->spec, &out->findings, err);
}

enum cs_status cs_preflight_make(const json_t *document, bool is_job, const struct cs_here *here,
                                 struct cs_arena *arena, struct cs_preflight_made *out,
                                 struct cs_err *err)
{
    struct cs_cluster cluster;
    out->document = document;
    CS_TRY((is_job ? cs_spec_read : cs_spec_read_preview)(document, arena, &out->spec, err));
    CS_TRY(cs_graph_build(out->spec, !is_job, arena, &out->graph, err));
    out->here = here;
    CS_TRY(cs_spec_cluster(out->spec, here, arena, &cluster, err));
    CS_TRY(cs_plan_make(out->spec, out->graph, &cluster, arena, &out->plan, err));
    out->device = cluster.device;
    CS_TRY(cs_plan_predict(out->plan, out->graph, &cluster, arena, err));
    const struct cs_forecast_options options = {.slots = 0};
    struct cs_forecast forecast;
    CS_TRY(cs_forecast_plan(out->plan, out->graph, &cluster, &options, arena, &forecast, err));
    out->figures = cs_forecast_figures(&forecast, out->plan, arena);
    struct cs_rank_needs *needs =
        CS_NEW_ARRAY(arena, struct cs_rank_needs, (size_t)out->plan->n_ranks + 1);
    for (int32_t r = 0; r < out->plan->n_ranks; r++)
        needs[r] = forecast.rank[r].needs;
    out->needs = needs;
    return CS_OK;
}

enum cs_status cs_preflight_plan(const struct cs_preflight_made *made, struct cs_arena *arena,
                                 struct cs_preflight *out, struct cs_err *err)
{
    struct cs_err why = {.text = ""};
    CS_TRY(begin(made, arena, out, err));
    if (cs_plan_check_runs(made->plan, &why) != CS_OK)
        cs_preflight_warn(out, "no job can use this plan: %s", why.text);
    cs_preflight_advise(made->spec, false, out);
    return CS_OK;
}

enum cs_status cs_preflight_job(const struct cs_preflight_made *made, struct cs_arena *arena,
                                struct cs_preflight *out, struct cs_err *err)
{
    const struct cs_spec *spec = made->spec;
    CS_TRY(begin(made, arena, out, err));
    CS_TRY(check_runs(made, err));
    CS_TRY(cs_preflight_files(made, out, err));
    CS_TRY(check_data(made, arena, "data", &spec->data, out, err));
    if (spec->has_eval)
        CS_TRY(check_data(made, arena, "eval.data", &spec->eval_data, out, err));
    out->steps = spec->steps;
    if (__builtin_mul_overflow(out->steps, out->data_step_ns, &out->total_ns))
        out->total_ns = 0;
    if (out->data_step_ns > 0)
        out->tokens_per_s = out->tokens_per_step * 1e9 / (double)out->data_step_ns;
    cs_preflight_advise(spec, true, out);
    return CS_OK;
}

static void add_lines(struct cs_buf *out, const char *before, const json_t *lines)
{
    for (size_t i = 0; i < json_array_size(lines); i++)
        cs_buf_addf(out, "%s%s\n", before, json_string_value(json_array_get(lines, i)));
}

void cs_preflight_data(const struct cs_preflight *p, struct cs_buf *out)
{
    add_lines(out, "", p->notes);
    add_lines(out, "warning: ", p->warnings);
}

void cs_preflight_warnings(const struct cs_preflight *p, struct cs_buf *out)
{
    cs_findings_text(&p->findings, false, out);
    add_lines(out, "warning: ", p->warnings);
}

void cs_preflight_text(const struct cs_preflight *p, bool with_defaults, struct cs_buf *out)
{
    char total[CS_UNITS_CAP], each[CS_UNITS_CAP], rate[CS_UNITS_CAP], size[CS_UNITS_CAP],
        memory[CS_UNITS_CAP];
    cs_duration_print(each, sizeof each, (uint64_t)p->data_step_ns);
    cs_bytes_print(size, sizeof size, (uint64_t)p->checkpoint_bytes);
    cs_bytes_print(memory, sizeof memory, (uint64_t)p->memory_bytes);
    cs_rate_print(rate, sizeof rate, p->tokens_per_s, "tokens");
    cs_duration_print(total, sizeof total, (uint64_t)p->total_ns);
    add_lines(out, "", p->notes);
    if (p->steps > 0 && p->total_ns > 0) {
        cs_buf_addf(out, "%lld step%s in about %s", (long long)p->steps, CS_PLURAL(p->steps),
                    total);
        if (p->data_step_ns != p->step_ns)
            cs_buf_addf(out, " (%s each, slots as full as samples make them)", each);
        cs_buf_addf(out, ", %s; ", rate);
    }
    if (p->steps > 0 && p->total_ns <= 0)
        cs_buf_addf(out, "%lld step%s; ", (long long)p->steps, CS_PLURAL(p->steps));
    cs_buf_addf(out, "a checkpoint has %s, the fullest rank needs %s\n", size, memory);
    cs_findings_text(&p->findings, with_defaults, out);
    add_lines(out, "warning: ", p->warnings);
}

json_t *cs_preflight_json(const struct cs_preflight *p)
{
    return json_pack("{s:I s:I s:I s:I s:f s:f s:I s:I s:O s:O}", "steps", (json_int_t)p->steps,
                     "step_ns", (json_int_t)p->step_ns, "data_step_ns", (json_int_t)p->data_step_ns,
                     "total_ns", (json_int_t)p->total_ns, "tokens_per_step", p->tokens_per_step,
                     "tokens_per_s", p->tokens_per_s, "checkpoint_bytes",
                     (json_int_t)p->checkpoint_bytes, "memory_bytes", (json_int_t)p->memory_bytes,
                     "notes", p->notes, "warnings", p->warnings);
}
