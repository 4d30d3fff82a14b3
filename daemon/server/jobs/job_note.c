/* What the daemon itself notes of a job: into the job's directory, then into the history. On a full disk
 * notes wait in memory, in their order, and are written when there is room again. */
#include <string.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/wire.h"
#include "server/callers/caller.h"
#include "server/jobs/job.h"
#include "server/jobs/job_dir.h"
#include "server/records/record.h"

enum { MOST_WAITING = 256 };

/* A part that is written is not written again. */
static enum cs_status put(const struct cs_job *job, json_t *note, struct cs_err *err)
{
    const int64_t wall_ns = cs_msg_int(note, "wall_ns", 0);
    const char *level = cs_msg_str(note, "level", ""), *text = cs_msg_str(note, "text", "");
    if (!cs_msg_bool(note, "is_in_directory", false) && cs_job_dir_is_there(&job->row))
        CS_TRY(cs_record_note(job->row.dir, wall_ns, level, text, err));
    cs_msg_set_bool(note, "is_in_directory", true);
    return cs_db_note_add(job->server->db, job->row.id, wall_ns, level, text, err);
}

void cs_job_cannot_write(const struct cs_job *job, const char *what, const struct cs_err *why)
{
    struct cs_server *server = job->server;
    snprintf(server->write_error, sizeof server->write_error, "%.290s", why->text);
    cs_log(server->log, CS_ERROR, what, CS_KV("job", job->row.id),
           CS_KV("error", (const char *)why->text));
}

void cs_job_notes_retry(struct cs_job *job)
{
    struct cs_err err;
    while (json_array_size(job->notes) > 0 &&
           put(job, json_array_get(job->notes, 0), &err) == CS_OK)
        json_array_remove(job->notes, 0);
}

void cs_job_tell_note(struct cs_job *job, int64_t wall_ns, const char *level, const char *text)
{
    json_t *event = cs_msg_new("event.note");
    cs_msg_set_int(event, "job", job->row.id);
    cs_msg_set_str(event, "level", level);
    cs_msg_set(event, "text", cs_json_bytes(text, strlen(text)));
    cs_msg_set_int(event, "wall_ns", wall_ns);
    cs_publish(job->server, CS_CLASS_EVENT, job->row.id, event);
    json_decref(event);
}

/* To who watches: as a note of the job, and as a line of its logs. */
static void tell(struct cs_job *job, const json_t *note)
{
    const int64_t wall_ns = cs_msg_int(note, "wall_ns", 0);
    const char *level = cs_msg_str(note, "level", ""), *text = cs_msg_str(note, "text", "");
    char stamp[CS_ISO_CAP];
    struct cs_buf line = {0};
    cs_job_tell_note(job, wall_ns, level, text);
    json_t *event = cs_msg_new("event.log");
    cs_iso_print(stamp, sizeof stamp, wall_ns);
    cs_buf_addf(&line, "%s %s ", stamp, level);
    cs_str_escape(&line, text, strlen(text), false);
    cs_msg_set_int(event, "job", job->row.id);
    cs_msg_set_int(event, "rank", -3);
    cs_msg_set(event, "line", cs_json_bytes(line.data, line.len < 8191 ? line.len : 8191));
    cs_publish(job->server, CS_CLASS_LOG, job->row.id, event);
    json_decref(event);
    cs_buf_free(&line);
}

void cs_job_note(struct cs_job *job, const char *level, const char *text)
{
    struct cs_err err = {0};
    json_t *note = json_object();
    cs_msg_set_int(note, "wall_ns", cs_wall_ns());
    cs_msg_set_str(note, "level", level);
    json_object_set_new(note, "text", cs_json_bytes(text, strlen(text)));
    tell(job, note);
    cs_job_notes_retry(job); /* those before it come first */
    const size_t waiting = json_array_size(job->notes);
    if (waiting == 0 && put(job, note, &err) == CS_OK) {
        json_decref(note);
        return;
    }
    if (waiting == 0)
        cs_job_cannot_write(job, "job.note", &err);
    if (job->notes == NULL)
        job->notes = json_array();
    if (waiting < MOST_WAITING)
        json_array_append_new(job->notes, note);
    else {
        cs_log(job->server->log, CS_ERROR, "job.note.lost", CS_KV("job", job->row.id),
               CS_KV("text", text));
        json_decref(note);
    }
}
