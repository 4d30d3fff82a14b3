/* What the terminal is lent for: its clipboard, and programs that need it for a while. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "console/screen/terminal/term_private.h"
#include "core/base/system/io.h"

static void add_base64(struct cs_buf *out, const unsigned char *bytes, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        const uint32_t b = (uint32_t)bytes[i] << 16 |
                           (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                           (i + 2 < n ? bytes[i + 2] : 0);
        cs_buf_addc(out, digits[b >> 18]);
        cs_buf_addc(out, digits[b >> 12 & 63]);
        cs_buf_addc(out, i + 1 < n ? digits[b >> 6 & 63] : '=');
        cs_buf_addc(out, i + 2 < n ? digits[b & 63] : '=');
    }
}

void cs_term_copy(struct cs_term *term, const char *text, size_t n)
{
    enum { MOST = 72000 }; /* xterm takes 100000 characters of Base64 */

    struct cs_buf out = {0};
    (void)term;
    cs_buf_adds(&out, "\033]52;c;");
    add_base64(&out, (const unsigned char *)text, n < MOST ? n : MOST);
    cs_buf_adds(&out, "\a");
    (void)!cs_write_all(STDOUT_FILENO, out.data, out.len, NULL);
    cs_buf_free(&out);
}

/* What it reads is written by a child of our own: the program may leave before it has read all. Then
 * nobody has the other end of the pipe any more, which ends the child. */
static pid_t feed(const struct cs_buf *input, int *read_end)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) == -1)
        return -1;
    const pid_t pid = fork();
    if (pid == 0) {
        signal(SIGPIPE, SIG_DFL);
        close(ends[0]);
        (void)!cs_write_all(ends[1], input->data, input->len, NULL);
        _exit(0);
    }
    close(ends[1]);
    *read_end = ends[0];
    return pid;
}

int cs_term_run(struct cs_term *term, const char *command, const struct cs_buf *input)
{
    int status = -1, from = -1;
    struct sigaction before, ignored = {.sa_handler = SIG_IGN};
    sigaction(SIGINT, &ignored, &before); /* C-c there is not ours, as with system(3) */
    const pid_t feeder = input ? feed(input, &from) : 0;
    cs_term_modes(false);
    endwin();
    const pid_t pid = fork();
    if (pid == 0) {
        if (from >= 0)
            dup2(from, STDIN_FILENO);
        signal(SIGINT, SIG_DFL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (from >= 0)
        close(from);
    while (pid > 0 && waitpid(pid, &status, 0) == -1 && errno == EINTR)
        ;
    while (feeder > 0 && waitpid(feeder, NULL, 0) == -1 && errno == EINTR)
        ;
    sigaction(SIGINT, &before, NULL);
    cs_term_modes(true);
    cs_term_resize(term);
    refresh();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
