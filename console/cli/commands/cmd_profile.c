/* profile: measure the layers of a script's model on this machine. A worker does it in a process of
 * its own (the console computes nothing); what it measures is what cs.plan and cs.search take as
 * profile. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/export/ask_worker.h"
#include "console/cli/shared/free_gpus.h"
#include "console/cli/shared/undisturbed.h"
#include "core/base/say.h"
#include "core/base/system/io.h"
#include "core/base/table.h"
#include "core/base/units.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/plan/cost/basis/profile.h"
#include "core/plan/make/planner.h"
#include "core/program/temp.h"
#include "core/wire/wire.h"

static const struct cs_column columns[] = {
    {"MODULE",     6,  0, 0, CS_ALIGN_LEFT },
    {"LAYER",      5,  0, 0, CS_ALIGN_LEFT },
    {"TP",         4,  0, 0, CS_ALIGN_LEFT },
    {"ROWS",       4,  0, 0, CS_ALIGN_RIGHT},
    {"FWD",        6,  0, 0, CS_ALIGN_RIGHT},
    {"BWD INPUT",  9,  0, 0, CS_ALIGN_RIGHT},
    {"BWD WEIGHT", 10, 0, 0, CS_ALIGN_RIGHT},
};

struct values {
    struct cs_cmd_common common;
    const char *output, *devices;
};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"output", 'o', CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "write the profile to FILE, for cs.plan and cs.search", AT(output)},
    CS_OPTION_DEVICES('D', struct values),
};

/* clang-format on */
#undef AT

struct model {
    struct cs_arena *arena;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster;
    struct cs_slot_budget budget;
};

static enum cs_status read_model(const json_t *document, const struct cs_here *here,
                                 struct model *m, struct cs_err *err)
{
    CS_TRY(cs_spec_read_preview(document, m->arena, &m->spec, err));
    CS_TRY(cs_graph_build(m->spec, true, m->arena, &m->graph, err));
    CS_TRY(cs_cluster_read_here(m->spec->cluster, here, &m->cluster, err));
    return cs_plan_budget(m->spec, m->graph, &m->budget, err);
}

/* --- what it found ---------------------------------------------------------------------------- */

static const struct cs_layer *layer_of(const struct cs_graph *graph,
                                       const struct cs_profile_row *row)
{
    for (int32_t l = 0; l < graph->n_layers; l++)
        if (graph->layers[l].kind == row->kind &&
            cs_layer_variant(&graph->layers[l]) == row->attention &&
            strcmp(graph->modules[graph->layers[l].module].name, row->module) == 0)
            return &graph->layers[l];
    return NULL;
}

static void add_row(struct cs_table *table, const struct model *m, const struct cs_profile *profile,
                    const struct cs_profile_row *row)
{
    struct cs_layer_cost cost;
    const struct cs_layer *layer = layer_of(m->graph, row);
    char cell[3][CS_UNITS_CAP], rows[32], tp[32];
    if (layer == NULL)
        return;
    struct cs_layer trained = *layer;
    trained.needs_weight_grad = trained.needs_input_grad = true;
    const struct cs_layer_work work = cs_layer_work(m->graph, layer, &m->budget);
    const int64_t n = cs_profile_rows(layer, work.tokens, work.label_rows);
    if (!cs_profile_cost(profile, m->graph, &trained,
                         (struct cs_profile_ranks){row->tp, row->cp, row->sp}, n, &cost))
        return;
    const int64_t parts[] = {cost.fwd_ns, cost.bwd_input_ns, cost.bwd_weight_ns};
    snprintf(rows, sizeof rows, "%lld", (long long)n);
    snprintf(tp, sizeof tp, "%d%s", row->tp, row->sp ? " sp" : "");
    for (size_t i = 0; i < CS_ARRAY_LEN(parts); i++)
        cs_duration_print(cell[i], CS_UNITS_CAP, (uint64_t)parts[i]);
    const char *cells[] = {row->module, layer->path, tp, rows, cell[0], cell[1], cell[2]};
    cs_table_add(table, cells);
}

/* what a step takes beside the layers, with every state that was measured */
static void add_steps(struct cs_buf *text, const struct model *m, const struct cs_profile *profile)
{
    int64_t n = 0;
    for (int32_t i = 0; i < m->graph->n_params; i++)
        n += m->graph->params[i].count;
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        struct cs_profile_step step;
        char all[CS_UNITS_CAP];
        if (cs_profile_step(profile, is_bf16, &step) != CS_STEP_MEASURED)
            continue;
        cs_duration_print(all, sizeof all,
                          (uint64_t)(cs_quadratic_ns(&step.clear, n) +
                                     cs_quadratic_ns(&step.norm, n) +
                                     cs_quadratic_ns(&step.update, n)));
        cs_buf_addf(text, "a step of AdamW on all %.1f million parameters, state in %s: %s\n",
                    (double)n * 1e-6, is_bf16 ? "bf16" : "fp32", all);
    }
}

/* by what they went, which jobs take as well; of most exchanges there is one way */
static const char *way_of(const struct cs_profile *profile, const struct cs_profile_link *link)
{
    const bool has_engines = strcmp(profile->device, "cpu") != 0;
    bool can_copy = false;
    for (int op = 0; op < CS_LINK_OPS; op++)
        can_copy = can_copy || (cs_link_can_copy((enum cs_link_op)op) &&
                                strcmp(link->op, cs_link_op_names[op]) == 0);
    if (!has_engines || !can_copy)
        return "";
    return link->by_copy_engines ? " by copy engines" : " by NCCL";
}

/* what exchanges between ranks take, and that nothing is known of them */
static void add_links(struct cs_buf *text, const struct cs_profile *profile)
{
    for (int32_t i = 0; i < profile->n_links; i++) {
        const struct cs_profile_link *l = &profile->link[i];
        char latency[CS_UNITS_CAP], rate[CS_UNITS_CAP];
        cs_duration_print(latency, sizeof latency, (uint64_t)l->latency_ns);
        cs_bytes_print(rate, sizeof rate, (uint64_t)l->bytes_per_s);
        cs_buf_addf(text, "%s among %d rank%s%s: %s and %s/s", l->op, l->ranks, CS_PLURAL(l->ranks),
                    way_of(profile, l), latency, rate);
        if (l->beside_bytes_per_s > 0) {
            cs_bytes_print(rate, sizeof rate, (uint64_t)l->beside_bytes_per_s);
            cs_buf_addf(text, "; while the device computes %s/s, and computing is %.0f %% slower",
                        rate, l->slows * 100);
        }
        cs_buf_adds(text, "\n");
    }
    if (profile->n_links == 0)
        cs_buf_addf(text, "links between ranks were not measured: plans take those of a %s\n",
                    profile->device);
}

static enum cs_status save(const char *path, const json_t *json, struct cs_err *err)
{
    char *text = json_dumps(json, JSON_INDENT(1));
    if (text == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to write %s", path);
    enum cs_status status = cs_write_file_atomic(path, text, strlen(text), 0666, err);
    free(text);
    return status;
}

static enum cs_status show(struct cs_cmd *cmd, const struct model *m, json_t *json,
                           struct cs_err *err)
{
    const struct values *v = cmd->values;
    struct cs_profile *profile;
    struct cs_buf text = {0};
    CS_TRY(cs_profile_read(json, m->arena, &profile, err));
    CS_TRY(cs_profile_check(profile, m->graph, m->cluster.device, err));
    if (v->output != NULL)
        CS_TRY(save(v->output, json, err));
    if (cmd->json)
        return cs_cmd_print_doc(json_incref(json), err);
    struct cs_table *table = cs_table_new(columns, CS_ARRAY_LEN(columns));
    for (int32_t i = 0; i < profile->n_rows; i++)
        add_row(table, m, profile, &profile->row[i]);
    cs_table_render(table, cs_cmd_width(), true, &text);
    cs_table_free(table);
    cs_buf_addf(
        &text,
        "\none layer of each kind on one %s, a slot filled to its budget, everything "
        "trained; tp: on the first of so many ranks that share it, without their exchanges\n",
        profile->device);
    add_steps(&text, m, profile);
    add_links(&text, profile);
    if (v->output != NULL)
        cs_buf_addf(&text, "%s: use it as profile = \"%s\" of cs.plan or cs.search\n", v->output,
                    v->output);
    else
        cs_buf_addf(&text, "keep it with --output FILE\n");
    cs_cmd_print(&text);
    cs_buf_free(&text);
    return CS_OK;
}

/* The worker measures on GPUs that no job holds: it sees no others. *n: how many of them links are measured between,
 * of those of a node. */
static enum cs_status take_free_gpus(const struct cs_cmd *cmd, int32_t *n, struct cs_err *err)
{
    struct cs_free_gpus gpus;
    const enum cs_status status = cs_free_gpus_ask(cmd, &gpus, err);
    if (status == CS_OK && gpus.n_held > 0) {
        *n = gpus.n < *n ? gpus.n : *n;
        cs_say(stderr, "cornstarch-console: jobs hold %s; measuring on %s%s\n",
               cs_buf_str(&gpus.held), cs_buf_str(&gpus.free),
               gpus.n == 1 ? " alone, without links: those take two free GPUs" : "");
        setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 1); /* as the driver counts them */
        setenv("CUDA_VISIBLE_DEVICES", cs_buf_str(&gpus.visible), 1);
    }
    cs_free_gpus_clear(&gpus);
    return status;
}

static enum cs_status measure(const struct cs_cmd *cmd, const json_t *document,
                              const struct model *m, json_t **profile, struct cs_err *err)
{
    const bool is_cpu = strcmp(m->cluster.device->name, "cpu") == 0;
    const int32_t tp_ranks = m->cluster.devices_per_node; /* one device stands for all of them */
    int32_t n = tp_ranks;
    struct cs_undisturbed watch;
    enum cs_status status = cs_undisturbed_begin(cmd, is_cpu ? "cpu" : "cuda", &watch, err);
    if (status == CS_OK && !is_cpu)
        status = take_free_gpus(cmd, &n, err);
    if (status != CS_OK) {
        cs_undisturbed_end(&watch);
        return status;
    }
    json_t *request = json_pack("{s:O, s:s, s:s, s:i, s:i}", "document", document, "device",
                                is_cpu ? "cpu:0" : "cuda:0", "class", m->cluster.device->name,
                                "devices", (int)n, "tp_ranks", (int)tp_ranks);
    if (m->spec->precision[0] != '\0')
        cs_msg_set_str(request, "precision", m->spec->precision);
    status = cs_ask_worker("--profile", request, profile, err);
    if (status == CS_OK)
        status = cs_undisturbed_check(cmd, &watch, err);
    cs_undisturbed_end(&watch);
    json_decref(request);
    return status;
}

static enum cs_status profile_layers(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_script_result result;
    struct cs_here here;
    json_t *profile = NULL;
    const char *output = ((const struct values *)cmd->values)->output;
    if (output != NULL) /* before minutes of measuring */
        CS_TRY(cs_temp_try(output, err));
    CS_TRY(cs_cmd_here_local(cmd, ((const struct values *)cmd->values)->devices, &here, err));
    /* an older profile that the script names may be missing or of other shapes */
    const struct cs_lua_limits limits = {.here = here, .skips_profiles = true};
    CS_TRY(cs_cmd_eval_with(cmd->args[0], false, &limits, &result, err));
    if (result.kind == CS_SCRIPT_SWEEP) {
        cs_script_result_free(&result);
        return cs_fail(err, CS_INVALID, "%s gives several plans; profile takes a job or one plan",
                       cmd->args[0]);
    }
    struct model m = {.arena = cs_arena_new(0)};
    enum cs_status status = read_model(result.document, &here, &m, err);
    if (status == CS_OK)
        status = measure(cmd, result.document, &m, &profile, err);
    if (status == CS_OK)
        status = show(cmd, &m, profile, err);
    json_decref(profile);
    cs_arena_free(m.arena);
    cs_script_result_free(&result);
    return status;
}

const struct cs_command cs_command_profile = {
    .name = "profile",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] SCRIPT",
    .help = "measure the layers of a script's model on this machine, on GPUs that no job holds; "
            "refuses where jobs start "
            "meanwhile",
    .run = profile_layers,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(options, struct values),
};
