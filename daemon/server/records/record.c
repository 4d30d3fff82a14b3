/* Writes and reads the daemon's record of a job in the job's directory. */
#include "server/records/record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

enum { MAX_BYTES = 64 * 1024 };

static json_t *record_of(const struct cs_job_row *const_row)
{
    struct cs_job_row *row = (struct cs_job_row *)(uintptr_t)const_row; /* read only */
    json_t *out = json_object();
    cs_msg_set_str(out, "schema", "cornstarch.record/1");
    cs_msg_set_int(out, "id", row->id);
    for (int i = 0; i < cs_n_row_fields; i++) {
        const struct cs_row_field *f = &cs_row_fields[i];
        if (f->is_derived)
            continue;
        if (f->type == CS_ROW_TEXT)
            json_object_set_new(out, f->name,
                                cs_json_bytes(cs_row_text(row, f), strlen(cs_row_text(row, f))));
        else if (f->type == CS_ROW_INT)
            cs_msg_set_int(out, f->name, *cs_row_int(row, f));
        else
            cs_msg_set_num(out, f->name, *cs_row_real(row, f));
    }
    return out;
}

enum cs_status cs_record_write(const char *dir, const struct cs_job_row *row, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    CS_TRY(cs_path(path, err, "%s/job.json", dir));
    json_t *record = record_of(row);
    cs_json_pretty(record, &text);
    json_decref(record);
    enum cs_status status = cs_write_file_atomic(path, text.data, text.len, 0600, err);
    cs_buf_free(&text);
    return status;
}

static void take(const json_t *record, struct cs_job_row *row)
{
    for (int i = 0; i < cs_n_row_fields; i++) {
        const struct cs_row_field *f = &cs_row_fields[i];
        if (f->is_derived)
            continue;
        if (f->type == CS_ROW_TEXT)
            cs_str_copy(cs_row_text(row, f), f->cap,
                        cs_msg_str(record, f->name, cs_row_text(row, f)));
        else if (f->type == CS_ROW_INT)
            *cs_row_int(row, f) = cs_msg_int(record, f->name, *cs_row_int(row, f));
        else
            *cs_row_real(row, f) = cs_msg_num(record, f->name, *cs_row_real(row, f));
    }
}

enum cs_status cs_record_read(const char *dir, struct cs_job_row *row, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    json_t *record = NULL;
    CS_TRY(cs_path(path, err, "%s/job.json", dir));
    if (access(path, F_OK) == -1)
        return cs_fail(err, CS_NOT_FOUND, "there is no %s", path);
    enum cs_status status = cs_read_file(path, MAX_BYTES, &text, err);
    if (status == CS_OK)
        status = cs_line_parse(cs_buf_str(&text), text.len, &record, err);
    if (status == CS_OK)
        take(record, row);
    json_decref(record);
    cs_buf_free(&text);
    return status == CS_OK ? status : cs_wrap(err, status, "reading %s", path);
}

enum cs_status cs_record_note(const char *dir, int64_t wall_ns, const char *level, const char *text,
                              struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf line = {0};
    CS_TRY(cs_path(path, err, "%s/notes", dir));
    const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd == -1)
        return cs_fail_errno(err, "opening %s", path);
    json_t *msg = cs_msg_new("runner.note");
    cs_msg_set_str(msg, "level", level);
    json_object_set_new(msg, "text", cs_json_bytes(text, strlen(text)));
    cs_msg_set_int(msg, "wall_ns", wall_ns);
    enum cs_status status = cs_msg_encode(msg, &line, err);
    const off_t end = lseek(fd, 0, SEEK_END);
    if (status == CS_OK)
        status = cs_write_all(fd, line.data, line.len, err);
    if (status != CS_OK && end != -1)
        (void)!ftruncate(fd, end); /* half a line would spoil the next */
    json_decref(msg);
    cs_buf_free(&line);
    close(fd);
    return status;
}
