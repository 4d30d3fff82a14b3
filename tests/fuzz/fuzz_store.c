/* Fuzz target: any messages of the schema, nearly right, to the console's store with a job in it; then
 * every screen is drawn. */
#include "console/store/store.h"
#include "core/plan/json/plan_json.h"
#include "core/wire/wire.h"
#include "fuzz/edit.h"
#include "fuzz/screens.h"
#include "support/replay.h"

enum { JOB = 41, MESSAGES = 12 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct cs_test_replay replay;

/* What the daemon says of the job whose plan we know. */
static json_t *show(void)
{
    return json_pack("{s:s,s:b,s:{s:i,s:s,s:s,s:i,s:i,s:s},s:o,s:o}", "type", "job.show", "reply",
                     1, "job", "id", JOB, "name", "shapes", "state", "RUN", "step", 7, "steps", 100,
                     "plan_hash", replay.plan->hash, "spec", json_deep_copy(replay.spec), "plan",
                     cs_plan_json(replay.plan, replay.graph));
}

static json_t *spans(struct fuzz_bytes *bytes)
{
    json_t *rows = json_array();

    for (int i = 0; i < 4; i++)
        json_array_append_new(rows,
                              json_pack("[i,i,i,i,s,i,i,i,i]", (int)fuzz_take(bytes, 5), i, i * 100,
                                        i * 100 + 50, "F", (int)fuzz_take(bytes, 5), i, 1, 0));
    return json_pack("{s:s,s:i,s:i,s:i,s:o}", "type", "event.spans", "job", JOB, "step", 3, "slots",
                     4, "rows", rows);
}

static void feed(struct cs_store *store, json_t *msg, struct fuzz_bytes *bytes)
{
    fuzz_must(msg != NULL);
    fuzz_edit(msg, bytes);
    cs_store_message(store, msg);
    json_decref(msg);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size}, none = {NULL, 0};
    struct cs_store *store = cs_store_new();
    size_t n = 0;
    const struct cs_message *messages = cs_schema_messages(&n);

    if (replay.arena == NULL) {
        struct cs_test_spec spec = cs_test_replay_spec();
        cs_test_replay_new(&replay, &spec, 1);
    }
    cs_store_select(store, JOB);
    feed(store, show(), fuzz_take(&bytes, 2) ? &bytes : &none);
    for (int i = 0; i < MESSAGES && bytes.n > 0; i++) {
        /* edits of one message must not eat the bytes of the others */
        struct fuzz_bytes own = {bytes.at, bytes.n < 24 ? bytes.n : 24};
        uint32_t k = fuzz_take(&own, (uint32_t)n + 8);
        feed(store, k < n ? cs_msg_example(&messages[k]) : k < n + 4 ? spans(&own) : show(), &own);
        bytes.at += bytes.n < 24 ? bytes.n : 24;
        bytes.n -= bytes.n < 24 ? bytes.n : 24;
    }
    fuzz_draw(store, &bytes);
    cs_store_free(store);
    return 0;
}
