/* The specification of a job on the daemon's side: ranks, files, the layout of the next generation. */
#ifndef CS_SERVER_JOB_SPEC_H
#define CS_SERVER_JOB_SPEC_H

#include "core/model/spec.h"
#include "server/jobs/job.h"

/* How a job goes on: all empty, as before. */
struct cs_job_relayout {
    const json_t *spec;    /* its layout is taken, what it trains must be the same; NULL: none */
    const char *plan_hash; /* previewed, "" none */
    int64_t ranks;         /* of the previewed plan of spec; 0: not told */
    bool is_replan;        /* another plan is fine */
    bool is_from_start;    /* at step 0, whatever is there */
};

/* Devices, ranks and hashes into a row. ranks: of the previewed plan; 0: not told, the request is
 * counted. CS_PLAN: this node has not what the plan needs. */
enum cs_status cs_job_spec_take(const struct cs_server *server, const struct cs_spec *spec,
                                int64_t ranks, struct cs_job_row *row,
                                struct cs_err *err) CS_NODISCARD;
/* Leaves word in DIR for the runner: it begins anew, or goes on from what is there. */
enum cs_status cs_job_spec_begin(const struct cs_job *job, bool is_from_start,
                                 struct cs_err *err) CS_NODISCARD;
/* sets the hash of the plan that the runner must come to; is_replan: any */
void cs_job_spec_expect(json_t *spec, const char *plan_hash, bool is_replan);
/* The files and the row of a job for its next generation; the caller saves the row. CS_REFUSED
 * names the first key in which something else would be trained, with both values. */
enum cs_status cs_job_spec_change(struct cs_job *job, const struct cs_job_relayout *how,
                                  struct cs_err *err) CS_NODISCARD;

#endif
