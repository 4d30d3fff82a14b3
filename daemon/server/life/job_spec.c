/* The specification of a job on the daemon's side: which ranks and devices it asks for, its files in
 * the job's directory, and its layout for the next generation.
 *
 * spec.json is what the next runner reads. Before it is replaced, what the generation G ran is kept
 * as spec-G.json. Both are written atomically and the row of the database follows; a daemon that
 * dies in between finds by the hash that the row is behind and takes it from the file. */
#include "server/life/job_spec.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "core/base/units.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "server/jobs/job_dir.h"
#include "server/node/node.h"

/* CPU ranks or GPUs, as the plan's cluster says; more than there are would queue forever. */
static enum cs_status choose_devices(const struct cs_server *server, const struct cs_spec *spec,
                                     int64_t ranks, struct cs_job_row *row, struct cs_err *err)
{
    struct cs_cluster cluster;
    const struct cs_here here = cs_node_here(server);
    CS_TRY(cs_cluster_read_here(spec->cluster, &here, &cluster, err));
    CS_TRY(cs_spec_check_precision(spec, cluster.device->name, err));
    const bool is_gpu = strcmp(cluster.device->name, "cpu") != 0;
    const long long offered = (long long)cs_node_offers(server, is_gpu);
    snprintf(row->device, sizeof(row->device), "%s", is_gpu ? "cuda" : "cpu");
    row->ranks = ranks > 0 ? ranks : cs_spec_ranks(spec);
    if (is_gpu && offered == 0)
        return cs_fail(err, CS_PLAN,
                       "the plan is for %s and this node offers no GPU (%s); device = \"cpu\" runs "
                       "it on CPU cores",
                       cluster.device->name, cs_node_gpus_note(server));
    if (row->ranks > offered)
        return cs_fail(err, CS_PLAN, "the plan needs %lld rank%s, this node offers %lld %s",
                       (long long)row->ranks, CS_PLURAL(row->ranks), offered,
                       is_gpu ? "GPUs" : "CPU devices");
    return CS_OK;
}

enum cs_status cs_job_spec_take(const struct cs_server *server, const struct cs_spec *spec,
                                int64_t ranks, struct cs_job_row *row, struct cs_err *err)
{
    CS_TRY(choose_devices(server, spec, ranks, row, err));
    snprintf(row->spec_hash, sizeof(row->spec_hash), "%s", spec->hash);
    snprintf(row->plan_hash, sizeof(row->plan_hash), "%s", spec->plan_hash);
    return CS_OK;
}

enum cs_status cs_job_spec_begin(const struct cs_job *job, bool is_from_start, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/from-start", job->row.dir)); /* cornstarch-runner(8) */
    if (is_from_start)
        return cs_write_file_atomic(path, "", 0, 0600, err);
    if (unlink(path) == -1 && errno != ENOENT)
        return cs_fail_errno(err, "cannot remove %s", path);
    return CS_OK;
}

void cs_job_spec_expect(json_t *spec, const char *plan_hash, bool is_replan)
{
    if (is_replan)
        json_object_set_new(spec, "plan_hash", json_string(""));
    else if (plan_hash[0])
        json_object_set_new(spec, "plan_hash", json_string(plan_hash));
}

static enum cs_status read_spec(const struct cs_job *job, json_t **out, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    CS_TRY(cs_path(path, err, "%s/spec.json", job->row.dir));
    enum cs_status status = cs_read_file(path, CS_SPEC_MAX_BYTES, &text, err);
    if (status == CS_OK)
        status = cs_line_parse(cs_buf_str(&text), text.len, out, err);
    cs_buf_free(&text);
    return status == CS_OK ? status : cs_wrap(err, status, "reading %s", path);
}

/* What is trained must stay; a script that trains something else is another job. */
static enum cs_status check_trained(const json_t *job, const json_t *script, struct cs_err *err)
{
    struct cs_spec_difference d;
    json_t *a = cs_spec_trained(job), *b = cs_spec_trained(script);
    cs_spec_compare(a, b, &d);
    json_decref(a);
    json_decref(b);
    if (d.path[0] == '\0')
        return CS_OK;
    return cs_fail(err, CS_REFUSED,
                   "%s is %s in the job and %s in the script: a resumed job may change its layout "
                   "alone; give what the job has, or submit another job",
                   d.path, d.a, d.b);
}

/* The document of the next generation: *out is a new reference. */
static enum cs_status next_spec(const json_t *old, const struct cs_job_relayout *how,
                                struct cs_arena *arena, json_t **out, struct cs_err *err)
{
    struct cs_spec *script;
    if (how->spec) {
        CS_TRY(cs_spec_read(how->spec, arena, &script, err));
        CS_TRY(check_trained(old, how->spec, err));
        *out = cs_spec_with_layout(old, how->spec);
    } else {
        *out = json_deep_copy(old);
    }
    if (*out == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the specification");
    cs_job_spec_expect(*out, how->plan_hash, how->is_replan);
    return CS_OK;
}

/* The generation that ran this specification, by the state that its runner left; -1: none did. */
static int64_t generation_of(const struct cs_job *job, const char *spec_hash)
{
    json_t *state = cs_job_dir_get(job->row.dir, "state.json", CS_LINE_MAX);
    const bool is_its = strcmp(cs_msg_str(state, "spec_hash", ""), spec_hash) == 0;
    const int64_t generation = is_its ? cs_msg_int(state, "generation", -1) : -1;
    json_decref(state);
    return generation;
}

static enum cs_status replace(struct cs_job *job, const struct cs_spec *old, const json_t *next,
                              struct cs_err *err)
{
    char kept[64];
    const int64_t generation = generation_of(job, old->hash);
    snprintf(kept, sizeof kept, "spec-%lld.json", (long long)generation);
    if (generation >= 0) /* what never ran is not kept */
        CS_TRY(cs_job_dir_put(job->row.dir, kept, old->root, err));
    return cs_job_dir_put(job->row.dir, "spec.json", next, err);
}

enum cs_status cs_job_spec_change(struct cs_job *job, const struct cs_job_relayout *how,
                                  struct cs_err *err)
{
    struct cs_job_row row = job->row;
    struct cs_spec *spec, *before;
    json_t *old = NULL, *next = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = read_spec(job, &old, err);
    if (status == CS_OK)
        status = cs_spec_read(old, arena, &before, err);
    if (status == CS_OK)
        status = next_spec(old, how, arena, &next, err);
    if (status == CS_OK)
        status = cs_spec_read(next, arena, &spec, err);
    const bool is_same = status == CS_OK && strcmp(spec->hash, row.spec_hash) == 0;
    if (status == CS_OK && !is_same)
        status = cs_job_spec_take(job->server, spec, how->spec ? how->ranks : 0, &row, err);
    if (status == CS_OK && !json_equal(old, next))
        status = replace(job, before, next, err);
    if (status == CS_OK)
        job->row = row;
    json_decref(old);
    json_decref(next);
    cs_arena_free(arena);
    return status;
}
