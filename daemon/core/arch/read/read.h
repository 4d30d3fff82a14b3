/* Steps of reading an architecture. Internal to the room; read.c takes them in order. */
#ifndef CS_CORE_ARCH_READ_READ_H
#define CS_CORE_ARCH_READ_READ_H

#include "core/arch/families/families.h"
#include "core/arch/read/config.h"

/* front_read.c: what follows from the keys of an encoder: the table of positions, the width of a patch,
 * the chain behind the blocks */
enum cs_status cs_front_finish(const struct cs_config_source *config,
                               const struct cs_family *family, struct cs_arch *arch,
                               struct cs_err *err) CS_NODISCARD;
/* after cs_attention_kinds: which rows see each other in which blocks, which blocks have taps */
enum cs_status cs_front_blocks(const struct cs_config_source *config,
                               const struct cs_family *family, struct cs_arena *arena,
                               struct cs_arch *arch, struct cs_err *err) CS_NODISCARD;
/* experts.c: which blocks have experts, where the keys have set how many there are */
enum cs_status cs_experts_read(const struct cs_config_source *config, struct cs_arena *arena,
                               struct cs_arch *arch, struct cs_err *err) CS_NODISCARD;
/* rope.c: what the config says of the rotation of layers of that type ("full_attention",
 * "sliding_attention"), into attention->rope */
enum cs_status cs_rope_read(const struct cs_config_source *config,
                            const struct cs_rope_rules *rules, const char *layer_type,
                            int32_t max_positions, struct cs_arena *arena,
                            struct cs_attention *attention, struct cs_err *err) CS_NODISCARD;
/* attention.c: attention[0] as the keys set it becomes the table of kinds, one for every type of
 * layer that the model has, and block_attention */
enum cs_status cs_attention_kinds(const struct cs_config_source *config,
                                  const struct cs_family *family, struct cs_arena *arena,
                                  struct cs_arch *arch, struct cs_err *err) CS_NODISCARD;

#endif
