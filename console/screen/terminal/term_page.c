/* What curses writes of a drawing, kept until it is whole. It writes at every jump of the cursor: some thirty times
 * a screen, each of which wakes the terminal, or an ssh and what is behind it. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "console/screen/terminal/term_private.h"

/* One terminal a process, as curses has it; a crash has to find it. -1: not there. */
static struct {
    int out;   /* curses writes here: the terminal, while it draws the page */
    int tty;   /* always the terminal */
    int bytes; /* the page: memory */
} page = {-1, -1, -1};

static int copy_of(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
}

FILE *cs_term_page_open(void)
{
    page.out = copy_of(STDOUT_FILENO);
    page.tty = copy_of(STDOUT_FILENO);
    page.bytes = memfd_create("cornstarch-screen", MFD_CLOEXEC);
    FILE *file = page.out >= 0 ? fdopen(page.out, "w") : NULL;
    if (file == NULL)
        cs_term_page_close(NULL);
    return file;
}

void cs_term_page_close(FILE *file)
{
    if (file != NULL)
        (void)!fclose(file);
    else if (page.out >= 0)
        close(page.out);
    if (page.tty >= 0)
        close(page.tty);
    if (page.bytes >= 0)
        close(page.bytes);
    page.out = page.tty = page.bytes = -1;
}

void cs_term_page_rescue(void)
{
    if (page.tty >= 0)
        (void)!dup3(page.tty, page.out, O_CLOEXEC);
}

/* A terminal that is gone gets no more; one that others have set not to block is waited for. */
static void send_all(const char *at, size_t n)
{
    struct pollfd room = {.fd = page.tty, .events = POLLOUT};
    while (n > 0) {
        const ssize_t wrote = write(page.tty, at, n);
        if (wrote < 0 && errno == EAGAIN)
            (void)!poll(&room, 1, -1);
        else if (wrote < 0 && errno != EINTR)
            return;
        at += wrote > 0 ? wrote : 0;
        n -= wrote > 0 ? (size_t)wrote : 0;
    }
}

static void send_page(void)
{
    const off_t n = lseek(page.bytes, 0, SEEK_CUR);
    char *text = n > 0 ? mmap(NULL, (size_t)n, PROT_READ, MAP_SHARED, page.bytes, 0) : MAP_FAILED;
    if (text != MAP_FAILED) {
        send_all(text, (size_t)n);
        munmap(text, (size_t)n);
    }
    (void)!lseek(page.bytes, 0, SEEK_SET);
    (void)!ftruncate(page.bytes, 0);
}

void cs_term_page_refresh(void)
{
    const bool is_kept =
        page.bytes >= 0 && page.tty >= 0 && dup3(page.bytes, page.out, O_CLOEXEC) >= 0;
    refresh();
    if (!is_kept)
        return;
    cs_term_page_rescue();
    send_page();
}
