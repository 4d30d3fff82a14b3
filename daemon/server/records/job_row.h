/* What the daemon knows of a job: one table of its fields, for the history (db.h) and for the record
 * in the job's directory (record.h). */
#ifndef CS_SERVER_JOB_ROW_H
#define CS_SERVER_JOB_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What was asked of a live job: to end after a checkpoint, or at once. */
enum cs_stop { CS_STOP_NONE, CS_STOP_SAVING, CS_STOP_NOW };

struct cs_job_row {
    int64_t id;
    char name[256], state[16], owner[64], spec_hash[65], plan_hash[65], reason[1024], dir[4096];
    int64_t step, steps, submitted_ns, started_ns, ended_ns, generation, checkpoint_step;
    int64_t predicted_step_ns, step_ns, exit_code, ranks, journal_offset;
    int64_t
        stopped_ns; /* between its first start and ended_ns, or now: when no runner worked on it */
    int64_t
        stop; /* enum cs_stop: what its runner was or will be told, which outlives this daemon */
    double loss, exact_match, bubble; /* NAN: unknown; bubble: of the last step, mean over ranks */
    char device[8];                   /* what its ranks are: "cpu" or "cuda" */
    char gpus[256];                   /* numbers of the GPUs it holds or held last, "2,3" */
    char tags[512];  /* words of its owner, in order, a comma between two; "": none */
    char note[1024]; /* what its owner wants to remember; "": nothing */
    int64_t energy_mj, energy_steps, energy_tokens; /* of training steps with a known energy */
};

enum cs_row_type { CS_ROW_TEXT, CS_ROW_INT, CS_ROW_REAL };

/* All but the id. is_derived: found again from the journal or the directory's place; the others are
 * known to the daemon alone and stand in the record. */
struct cs_row_field {
    const char *name; /* column and key */
    enum cs_row_type type;
    size_t offset, cap; /* cap: of a text, with its end */
    bool is_derived;
};

extern const struct cs_row_field cs_row_fields[];
extern const int cs_n_row_fields;

/* row->id 0, numbers 0, texts empty, what is not known yet unknown */
void cs_row_init(struct cs_job_row *row);
char *cs_row_text(struct cs_job_row *row, const struct cs_row_field *field);
int64_t *cs_row_int(struct cs_job_row *row, const struct cs_row_field *field);
double *cs_row_real(struct cs_job_row *row, const struct cs_row_field *field);

#endif
