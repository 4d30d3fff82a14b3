---@meta cornstarch
-- Generated from the argument tables: cornstarch-console lua --meta. Do not edit.

local cs = {}
cs.projector = {}
cs.data = {}
cs.optim = {}
cs.lr = {}
cs.lab = {}

---@type string
cs.version = ""

---@class cs.hf
local hf_ = {}

---@class cs.projector
local projector_ = {}

---@class cs.mllm
local mllm_ = {}

---a new model in which the named modules train; globs, last match wins
---@param ... string
---@return cs.mllm
function mllm_:train(...) end

---a new model in which the named modules are frozen
---@param ... string
---@return cs.mllm
function mllm_:freeze(...) end

---the model with LoRA adapters beside frozen matrices of a module: { module = "llm", rank = 8, alpha = 16, targets = "q_proj|v_proj" }, or { from = DIR } of PEFT's; the module is frozen
---@param ... string
---@return cs.mllm
function mllm_:lora(...) end

---number of parameters
---@return integer
function mllm_:params() end

---number of trained parameters
---@return integer
function mllm_:trainable_params() end

---one row per layer: path, params, trained, needs_weight_grad, needs_input_grad
---@return table[]
function mllm_:modules() end

---@class cs.cluster
local cluster_ = {}

---@class cs.plan
local plan_ = {}

---one row per stage: name, rank, layers, times
---@return table[]
function plan_:stages() end

---predicted time of a step
---@return number
function plan_:step_ms() end

---predicted idle share of the ranks
---@return number
function plan_:bubble() end

---ranks the plan needs
---@return integer
function plan_:ranks() end

---why it was cut as it is
---@return string
function plan_:explain() end

---a step: step_ms, bubble, stages, ranks with memory over time, critical_path; args: schedule, slots, stragglers, jitter, seed, copies, share_links
---@param ... string
---@return table
function plan_:simulate(...) end

---SHA-256 of the plan
---@return string
function plan_:hash() end

---@class cs.data
local data_ = {}

---@class cs.optim
local optim_ = {}

---@class cs.lr
local lr_ = {}

---@class cs.job
local job_ = {}

---the job document as a table
---@return table
function job_:spec() end

---@class cs.sweep
local sweep_ = {}

---one row per plan, the best first: parallel, schedule, step_ms, peak_memory_gib, bubble, ranks, why, of a search runs: whether jobs run it, and why_not_run
---@return table[]
function sweep_:plans() end

---the row that a frozen-blind planner would choose; of a search
---@return table?
function sweep_:blind() end

---what every planner chooses: planner, plan (its row), why_not; of a search
---@return table[]
function sweep_:planners() end

---why the first plan, and what binds: { cut = {...}, binds = {...} }; of a search
---@return table?
function sweep_:explain() end

---plan n as a cs.plan for a job, absent: the fastest that jobs run; of a search
---@param ... string
---@return cs.plan
function sweep_:plan(...) end

---the whole document that plan --json prints
---@return table
function sweep_:json() end

---@class cs.live
local live_ = {}

---finish the step, write a checkpoint, release the ranks
---@return cs.live
function live_:pause() end

---go on from the newest checkpoint
---@return cs.live
function live_:resume() end

---end the job
---@return cs.live
function live_:stop() end

---write a checkpoint after this step
---@return cs.live
function live_:checkpoint() end

---until it has ended or is paused
---@return cs.live
function live_:wait() end

---the job as it is now; its figures are fields: job.state, job.loss
---@return cs.live
function live_:show() end

---its specification
---@return table
function live_:spec() end

---one row a step: step, loss, grad_norm, lr, step_ns ...
---@return table[]
function live_:metrics() end

---the last lines of a rank's log; -1 the feeder, -2 (default) the runner
---@param ... string
---@return string[]
function live_:logs(...) end

---@class cs.hf.Args
---@field dir string a Hugging Face model directory
---@field part? "vision"|"audio"|"llm"|"projector" component of a composite directory (LLaVA, Qwen3-VL, Voxtral ...)
---@field init? "weights"|"random" read the weights, or start from random ones (default "weights")
---@field router_aux_loss_coef? number of a model with experts: share of the loss of their balance in what is trained (default the directory's, where it says output_router_logits; else 0)

---@class cs.encoder.Args
---@field hidden_size? integer width of a row (default 768)
---@field intermediate_size? integer inner width of the MLPs (default 3072)
---@field num_hidden_layers? integer blocks (default 12)
---@field num_attention_heads? integer heads of queries (default 12)
---@field num_key_value_heads? integer heads of keys and values (default num_attention_heads)
---@field head_dim? integer width of a head (default hidden_size / num_attention_heads)
---@field image_size? integer pixels a side of its pictures; 0: they have any size, as processor says (default 224)
---@field patch_size? integer pixels a side of a patch (default 16)
---@field positions? "none"|"row"|"bicubic"|"area"|"corners"|"buckets" learned positions: one for every patch of image_size, or a square table that is resized to the grid of a picture, as in DINOv2 (bicubic), SigLIP 2 (area), Qwen3-VL (corners), SmolVLM (buckets: not resized, the place at the same share) (default "row")
---@field num_positions? integer rows of that table (default the patches of image_size)
---@field rope_theta? number queries and keys are turned by their place in the grid, as in Pixtral; absent: they are not
---@field norm_type? "layer_norm"|"rms_norm" kind of all norms (default "layer_norm")
---@field norm_eps? number of all norms (default 1e-6)
---@field qk_norm? "none"|"head"|"width" RMS norms of queries and keys: of every head, or over all of them (default "none")
---@field hidden_act? "gelu"|"gelu_pytorch_tanh"|"relu"|"silu"|"quick_gelu" of the MLPs (default "gelu")
---@field gated_mlp? boolean the activation of one product times another (gate_proj, up_proj) instead of one (fc1) (default false)
---@field qkv_bias? boolean whether queries, keys and values have biases (default true)
---@field out_bias? boolean whether what leaves the attention has one (default true)
---@field mlp_bias? boolean whether the MLPs have them (default true)
---@field patch_bias? boolean whether the patches have one (default true)
---@field class_row? boolean a learned row before the patches, which projectors drop (default false)
---@field pre_norm? boolean a norm before the first block, as in CLIP (default false)
---@field final_norm? boolean a norm behind the last block (default true)
---@field layer_scale? boolean what a half of a block adds is multiplied with a learned vector, as in DINOv2 (default false)
---@field initializer_range? number standard deviation of fresh weights (default 0.02)
---@field processor? table what is done to pictures, as in a preprocessor_config.json: { image_processor_type = "CLIPImageProcessor", ... } (default pictures are resized to image_size, values from -1 to 1)

---@class cs.projector.mlp.Args
---@field layers? integer linear layers (default 2)
---@field activation? "gelu"|"gelu_pytorch_tanh"|"relu"|"silu"|"quick_gelu" between the layers (default "gelu")
---@field bias? boolean whether the linear layers have one (default true)
---@field from? string directory with trained weights, which also says what stands above; absent: random

---@class cs.projector.linear.Args
---@field bias? boolean whether the layer has one (default true)
---@field from? string directory with trained weights, which also says what stands above; absent: random

---@class cs.projector.hf.Args
---@field dir string a directory with a projector: a composite, a tower that brings its own, or an exported one
---@field init? "weights"|"random" read the weights; or fresh ones, which fit other encoders and language models too (default "weights")

---@class cs.mllm.Args
---@field name? string shown on the screens; also of the job where it has none (default "mllm")
---@field encoders? table name = { from = cs.hf ..., projector = ..., token = ... } (default {})
---@field llm? cs.hf the language model, cs.hf "DIR"; required without from
---@field from? string instead of encoders and llm: a directory that holds all of them, as LLaVA's or Qwen3-VL's
---@field init? "weights"|"random" with from: read the weights, or start from random ones (default "weights")
---@field router_aux_loss_coef? number with from: as in cs.hf
---@field video? table with from: reads videos as well, as in an encoder's table; {} as the directory says
---@field key? string with from: the key of a sample that holds the encoder's files, as in an encoder's table
---@field mask? "causal"|"packed"|"cornstarch"|"image_bidir"|"modality_bidir"|"item"|"window"|"prefix"|"image_bidir_window"|"image_window" who attends to whom in the language model, as in cs.lab.mask; in transformers LLaVA is causal, Gemma 3 image_bidir, Gemma 4 image_window; a model whose layers have windows of their own keeps them and takes these three (default the directory's, or "causal")
---@field window? integer tokens, with mask = "window"
---@field prefix? integer tokens, with mask = "prefix"

---@class cs.cluster.Args
---@field nodes? integer nodes (default 1)
---@field devices_per_node? integer devices of a node (default 8)
---@field preset? "a40x4"|"a100x8"|"h100x8"|"h200x8" nodes of a known kind instead of devices_per_node and device
---@field device? string device class, e.g. cpu, a100-80g, h100-80g (default "cpu")

---@class cs.plan.Args
---@field model cs.mllm made by cs.mllm
---@field cluster? cs.cluster where it runs (default cs.cluster "here")
---@field parallel table stages of every module (pp), under interleaved the chunks of each of the LLM's (vpp), where an encoder runs that does not run where modality says (place: own, colocated, replicated, first), ranks that share its matrices (tp) and may split rows between these (sp), ranks that split the rows of the LLM or share items of an encoder (cp), of dp * cp those that share experts (ep), what those with the same weights divide (zero: 1 the optimizer's state, 2 gradients too, 3 weights too), recompute (none, selective, full) and offload (none, host): { vision = { pp = 1 }, llm = { pp = 2, tp = 2 } }
---@field modality? "encoder-parallel"|"encoder-colocated"|"encoder-replicated"|"encoder-first" encoders on ranks of their own; stage by stage on the LLM's; a copy for every slot on each of the LLM's; whole on the LLM's first, which has fewer layers for it (default "encoder-parallel")
---@field schedule? "1f1b"|"gpipe"|"interleaved"|"zb-h1"|"zb-h2"|"zb-h2-late"|"three-phase"|"anchors" order of forward and backward; three-phase and anchors are of encoder-colocated, or of encoders whose place is colocated, with pp = 1 for encoders (default "1f1b")
---@field stages? "frozen-aware"|"frozen-blind"|"equal-layers" what the cut knows of frozen modules; equal-layers: it counts layers alone (default "frozen-aware")
---@field seq_tokens integer LLM rows of a slot
---@field slots? integer slots a step is expected to fill (default 4)
---@field dp? integer data parallelism: replicas of the language model, and of encoders that have no dp of their own in parallel, on ranks of their own; each runs its share of the slots (default 1)
---@field context? "lpt"|"best"|"exact"|"uniform"|"zigzag"|"striped"|"random" with cp: which rank has which rows of a slot; lpt: blocks by their work, the heaviest first (default "lpt")
---@field context_rows? integer with cp: rows that a rank takes of a slot before another one shares it, so that short slots stay on one rank and ranks work on different ones; 0: all ranks split every slot (default 0)
---@field context_exchange? "auto"|"keys"|"heads" with cp: what goes between ranks around attention; keys: keys and values that the rows of a rank see; heads: rows of all ranks for some heads on each, which must divide, so that attention is even however rows lie; auto: what takes less, as the plan says (default "auto")
---@field stripes? "auto"|"always"|"never" with tp: rows between stages on different ranks are cut over the ranks that need them, which put them together over their own link; auto: where that is faster (default "auto")
---@field encoder_rows? table row budget of a slot per encoder: { vision = 512 }
---@field optimizer? cs.optim the job's, for a plan that fits with its state alone: cs.optim.adamw { lr = ..., state = "bf16" }; cs.job plans again when its own has another state (default state in fp32)
---@field profile? string file of measured costs (cornstarch.profile/1), written by cornstarch-console profile; what is in it travels with the job (default a roofline of the device)

---@class cs.data.llava.Args
---@field json string the samples: JSON, JSON lines, Parquet, CSV or tar; a file, a folder, or a pattern of names
---@field images? string folder that paths of pictures are relative to, and that they must lie in; "/": absolute paths, anywhere
---@field follow_links? boolean symbolic links among the pictures may lead out of the folder, as in caches of Hugging Face and DVC (default false)
---@field mix? table further sources, trained as one with the first: { json = ..., images = ..., weight = ..., name = ... } each (default {})
---@field weight? number share of the first source beside those of mix (default samples of all sources are drawn alike)
---@field name? string channel of samples that name none
---@field template? string|table chat template: a built-in name or typed segments (default the tokenizer's own, where it has none chatml)
---@field cache? table where decoded and resized media are kept for later epochs and other jobs: { dir = "DIR", size = "20 GB" } (default none)
---@field on_bad_sample? "skip"|"fail" what a broken sample does (default "skip")
---@field max_bad_fraction? number share of broken samples that ends the job (default 0.01)
---@field max_picture_pixels? integer a picture of more is a bad sample (default 64000000)
---@field shuffle_images? boolean a control: give every sample another sample's picture (default false)

---@class cs.optim.adamw.Args
---@field lr number peak learning rate
---@field betas? table decay of the moments (default { 0.9, 0.999 })
---@field eps? number added to the root of the second moment (default 1e-8)
---@field weight_decay? number decoupled; not on biases and norms (default 0)
---@field clip? number global gradient norm; 0: no clipping (default 1.0)
---@field warmup_steps? integer linear warm-up (default 0)
---@field groups? table parameters with a learning rate or a decay of their own: { { glob = "vision.projector", lr = 1e-3, weight_decay = 0 } }; globs of layers or of names of parameters, of several that name one the last holds (default {})
---@field state? "fp32"|"bf16" what training keeps: fp32 masters, gradients and moments, 18 bytes for a parameter with its bf16 weight; or gradients and moments in bf16 and no masters, 8 bytes, rounded stochastically, on GPUs that compute in bf16 (default "fp32")

---@class cs.lr.cosine.Args
---@field final_ratio? number learning rate at the end over the peak (default 0)

---@class cs.lr.linear.Args
---@field final_ratio? number learning rate at the end over the peak (default 0)

---@class cs.job.Args
---@field name? string shown on the screens (default the model's name where it has one, else the script's)
---@field plan cs.plan made by cs.plan; or a cs.search: its fastest plan that jobs run, or the one that --pick names
---@field data cs.data what is trained on
---@field eval? table { data = ..., every_steps = 500, metric = "exact_match", max_samples = 500 }
---@field optimizer cs.optim cs.optim.adamw { lr = ... }
---@field lr? cs.lr schedule of the learning rate (default cs.lr.constant {})
---@field batch_samples integer samples of a step, as many as its 4096 slots and the memory of this machine hold
---@field balance? "list2d"|"lpt"|"entrain"|"random"|"stream" which slot of its step a sample sits in; stream: as they come (default "list2d")
---@field slot_order? "kept"|"searched" searched: the order of a step's slots that takes least on the simulator (default "kept")
---@field data_threads? integer threads that read samples, decode and resize their pictures; does not change what is trained (default 0: as the cores of this machine allow)
---@field precision? "bf16"|"fp32" what ranks compute in, with parameters updated in fp32 either way; CPU ranks compute in fp32 only (default bf16 on GPUs, fp32 on CPU ranks)
---@field steps integer optimizer steps
---@field seed? integer decides order of samples and fresh parameters (default 0)
---@field checkpoint? table { every_steps = 500, keep = 3, dir = ... }; one is always written at the end (default { every_steps = 0, keep = 3 })
---@field tensorboard? string directory for event files of TensorBoard, of this job alone, written while it runs (default none)
---@field alerts? table what raises an alarm: { divergence = 2, data_wait = false, ... }; false: off (default a threshold for each rule)

---@class cs.lab.needs.Args
---@field frozen table true for every frozen layer, in dataflow order

---@class cs.lab.split.Args
---@field stages integer number of stages
---@field costs? table cost of every layer; or fwd, bwd_input, bwd_weight and frozen
---@field fwd? table forward time of every layer
---@field bwd_input? table time of the input gradient, where it is needed (default fwd)
---@field bwd_weight? table time of the weight gradient, where it is needed (default fwd)
---@field frozen? table true for every frozen layer (default nothing)
---@field bytes? table memory of every layer, with cap
---@field cap? number largest memory of a stage (default none)

---@class cs.lab.program.Args
---@field modules table { { name = "v", feeds = "llm", fwd = { 1 }, bwd = { 2 } }, ... }
---@field schedule? string order of the work: 1f1b, gpipe, interleaved, zb-h1, zb-h2, zb-h2-late, three-phase, anchors (default "1f1b")
---@field slots integer slots of a step
---@field chunks? integer interleaved: chunks of every stage of the last module; three-phase: 1 unless given (default 2)
---@field window? integer anchors: groups of slots that are encoded ahead (default 2)
---@field ahead? integer slots that a stage without backward may be ahead of its messages (default all)
---@field lead? integer slots of the next step that a frozen encoder computes while this one drains (steady state) (default 0)

---@class cs.lab.simulate.Args
---@field modules table { { name = "v", feeds = "llm", fwd = { 1 }, bwd = { 2 } }, ... }
---@field schedule? string order of the work: 1f1b, gpipe, interleaved, zb-h1, zb-h2, zb-h2-late, three-phase, anchors (default "1f1b")
---@field slots integer slots of a step
---@field chunks? integer interleaved: chunks of every stage of the last module; three-phase: 1 unless given (default 2)
---@field window? integer anchors: groups of slots that are encoded ahead (default 2)
---@field ahead? integer slots that a stage without backward may be ahead of its messages (default all)
---@field lead? integer slots of the next step that a frozen encoder computes while this one drains (steady state) (default 0)
---@field hop? number time of every message between stages (default 0)
---@field stragglers? table { { stage = "llm.1", factor = 1.5 }, { rank = 0, copy = 3, factor = 2 }, ... } (default none)
---@field jitter? number every time is up to that part longer or shorter, evenly spread (default 0)
---@field seed? integer of the jitter: the same seed, the same times (default 0)
---@field ranks_per_node? integer messages that share a device's port in a node, or a NIC between nodes, divide it (default links are not shared)
---@field ranks_per_nic? integer ranks that share a NIC towards other nodes (default 1)
---@field latency? number part of hop in which a message occupies no link (default 0)
---@field copies? integer data-parallel copies of all ranks; those alike are simulated once (default 1)

---@class cs.lab.mask.Args
---@field spans table { { "text", 2 }, { "vision", 576 }, { "pad", 3 }, ... }; doc = and item = inside a span: packed document, index of the image
---@field rule? "causal"|"full"|"cornstarch"|"image_bidir"|"packed"|"window"|"prefix"|"item"|"modality_bidir"|"image_bidir_window"|"image_window" who sees whom (default "cornstarch")
---@field sees? "all"|"text" what text sees under rules that look at modalities (default "all")
---@field window? integer tokens, with rule = "window"
---@field prefix? integer tokens, with rule = "prefix"
---@field tile? table queries and keys of a tile (default { 128, 32 })

---@class cs.lab.balance.Args
---@field work table work of every block of tokens
---@field ranks integer ranks that share them
---@field how? "best"|"uniform"|"zigzag"|"striped"|"lpt"|"exact"|"random" the layout, or the best of all but random (default "best")
---@field cap? integer most blocks of a rank (default none)
---@field nodes? integer of the search, at most (default 4096, exact: 1048576)
---@field seed? integer of random (default 0)

---@class cs.lab.assign.Args
---@field samples table { { enc = 3, llm = 5 }, ... }; tokens = in every sample: a third dimension of list2d
---@field lanes integer data-parallel replicas
---@field slots integer slots of a replica
---@field how? "list2d"|"random"|"lpt"|"lpt_enc"|"lpt_lanes"|"disttrain"|"entrain"|"entrain_literal" the policy (default "list2d")
---@field defer? boolean pairwise deferral afterwards: adds llm_slot and enc_back (default false)
---@field order? "kept"|"sorted"|"disttrain"|"searched" of the slots of a replica afterwards; searched: hill climbing on the makespan (default "kept")
---@field rounds? integer makespans that searched tries for a replica (default 300)
---@field enc_stages? integer of the pipeline, for orders and the makespan (default 1)
---@field llm_stages? integer of the pipeline, for orders and the makespan (default 1)
---@field enc_backward? number backward over forward; 0: frozen (default 2)
---@field llm_backward? number backward over forward (default 2)
---@field seed? integer of random and searched (default 0)

---@class cs.config.Args
---@field model_type string family, as in a config.json; all other keys of one are accepted

---@class cs.search.Args
---@field model cs.mllm made by cs.mllm
---@field cluster? cs.cluster where it would run (default cs.cluster "here")
---@field seq_tokens integer LLM rows of a slot
---@field batch_slots integer slots of a step, over all replicas: a multiple of dp where that is given
---@field encoder_rows? table row budget of a slot per encoder: { vision = 512 }
---@field optimizer? cs.optim the job's: its state decides on memory and time of a step, cs.optim.adamw { lr = ..., state = "bf16" } (default state in fp32)
---@field parallel? table what is not free, of tp, cp, pp, dp, vpp, ep, sp (true, false: whether ranks that share matrices split rows between products) and place (own, colocated, replicated): { vision = { pp = 1 }, llm = { tp = 8 } } (default {})
---@field dp? integer replicas of all branches with ranks of their own (of one: in parallel); absent: free
---@field modality? "encoder-parallel"|"encoder-colocated"|"encoder-replicated"|"mixed" where encoders run (default parallel, colocated and mixed)
---@field schedule? "1f1b"|"gpipe"|"interleaved"|"zb-h1"|"zb-h2"|"three-phase"|"anchors" order of forward and backward (default 1f1b, interleaved, zb-h1, anchors)
---@field recompute? "none"|"selective"|"full" activations that are made again in the backward (default what fits and is fastest)
---@field zero? integer what replicas share: 1 optimizer, 2 and gradients, 3 and weights; 0 nothing (default the cheapest of 1, 2, 3 that fits)
---@field max_vpp? integer interleaved: most chunks of a stage (default 4)
---@field leave_node? boolean tp * cp groups may reach over nodes (default false)
---@field runs? boolean only layouts that jobs run, as found:plan() gives them to one (default false)
---@field planner? "cornstarch"|"blind"|"disttrain"|"entrain"|"modules"|"megatron" whose layouts, cut, formula and data policy (default "cornstarch")
---@field samples? table rank by ragged batches: { { vision = 576, llm = 700 }, ... } or quantiles of each branch { vision = { 0, 576, 2304 }, llm = { 20, 300, 4000 } } (default full slots)
---@field samples_file? string the same as a JSON file, made from a data set: [{"vision": 576, "llm": 700}, ...]
---@field batches? integer steps that are drawn from samples (default 8)
---@field batch_samples? integer samples of a step (default what fills the slots to 7/8)
---@field seed? integer decides the drawn samples (default 0)
---@field compare? boolean also find what the other planners choose (default true)
---@field explain? boolean say why, and which constraints bind (default true)
---@field stages? "frozen-aware"|"frozen-blind" what the cut knows of frozen modules (default "frozen-aware")
---@field context? "lpt"|"best"|"exact"|"uniform"|"zigzag"|"striped"|"random" with cp: which rank has which rows of a slot (default "lpt")
---@field profile? string file of measured costs (cornstarch.profile/1) (default a roofline of the device)
---@field simulate? integer layouts that are simulated (default 50)
---@field top? integer plans that are kept (default 16)

---@class cs.sweep.Args
---@field over table values of every parameter: { llm_pp = { 1, 2, 4 } }
---@field where? function function(p): whether to try this combination
---@field build function function(p): its cs.plan or cs.search; or its cs.job, of all combinations: 'cornstarch-console sweep' runs them
---@field rank_by? table of plans: slot_ms (a step by its slots), step_ms, peak_memory_gib, bubble, ranks, the smallest first (default { "slot_ms", "peak_memory_gib" })

---@class cs.lab.tokens.Args
---@field tokenizer string tokenizer.json or another file of a tokenizer, or the directory that holds it
---@field text string what is encoded
---@field special? boolean recognise special tokens in the text (default false)

---@class cs.lab.render.Args
---@field messages table { { role = "user", content = "<image> What is it?" }, { role = "assistant", content = "a cat" } }
---@field template? string|table chat template: a built-in name or typed segments (default the tokenizer's own, where it has none or none is given chatml)
---@field tokenizer? string with one: ids and labels as well
---@field token? string placeholder in user turns (default "<image>")
---@field rows? integer LLM rows of a picture (default 1)

---@class cs.param.Args
---@field name string as --set names it: letters, digits, _ and .
---@field default? string|number|boolean what it is without --set, which must be of its type; none: --set is needed, and gives a text

---@class cs.jobs.Args
---@field id? integer this job alone, not in a list; cs.jobs(41) is short for it
---@field state? string a state as jobs prints it: "RUN" (default every state)
---@field tag? string that they have: "sweep", "lr=0.1"
---@field owner? string whose
---@field name? string a part of their name
---@field limit? integer at most so many, the newest first (default 1000)

---@class cs.submit.Args
---@field job cs.job made by cs.job; cs.submit(job) is short for it
---@field tag? string that it gets
---@field note? string for people

---a model directory as save_pretrained writes it
---@param args string|cs.hf.Args
---@return cs.hf
function cs.hf(args) end

---an encoder of pictures that is described, with fresh weights; config.json of what is exported says the same
---@param args cs.encoder.Args
---@return cs.hf
function cs.encoder(args) end

---projector of linear layers with an activation between
---@param args cs.projector.mlp.Args
---@return cs.projector
function cs.projector.mlp(args) end

---projector of one linear layer
---@param args cs.projector.linear.Args
---@return cs.projector
function cs.projector.linear(args) end

---the projector of a directory, of whatever kind it is
---@param args string|cs.projector.hf.Args
---@return cs.projector
function cs.projector.hf(args) end

---a multimodal model: encoders with projectors, and a language model
---@param args string|cs.mllm.Args
---@return cs.mllm
function cs.mllm(args) end

---the devices a plan may use: "here", a preset such as "h100x8", or a table
---@param args string|cs.cluster.Args
---@return cs.cluster
function cs.cluster(args) end

---a parallel plan, computed and checked at once
---@param args cs.plan.Args
---@return cs.plan
function cs.plan(args) end

---samples: conversations with pictures, videos and sounds, in JSON (LLaVA's, messages, sharegpt, alpaca, OpenAI's blocks), Parquet, CSV or tar
---@param args cs.data.llava.Args
---@return cs.data
function cs.data.llava(args) end

---AdamW with decoupled weight decay
---@param args cs.optim.adamw.Args
---@return cs.optim
function cs.optim.adamw(args) end

---cosine decay after the warm-up
---@param args cs.lr.cosine.Args
---@return cs.lr
function cs.lr.cosine(args) end

---linear decay after the warm-up
---@param args cs.lr.linear.Args
---@return cs.lr
function cs.lr.linear(args) end

---constant after the warm-up
---@return cs.lr
function cs.lr.constant() end

---a training job; a script returns it
---@param args cs.job.Args
---@return cs.job
function cs.job(args) end

---which layers need the gradient of their input and of their weights
---@param args cs.lab.needs.Args
---@return table
function cs.lab.needs(args) end

---cut a chain of layers into stages: bottleneck and sizes
---@param args cs.lab.split.Args
---@return table
function cs.lab.split(args) end

---the order of work of every stage, e.g. ["llm.0"] = "F0 F1 B0 ..."
---@param args cs.lab.program.Args
---@return table
function cs.lab.program(args) end

---makespan; bubble, peak, idle between first and last work, and exposed messages of every stage; bubble of every module; critical path; classes of copies; memory over time
---@param args cs.lab.simulate.Args
---@return table
function cs.lab.simulate(args) end

---allowed pairs, matrix, tile map and work of a mask made of spans
---@param args cs.lab.mask.Args
---@return table
function cs.lab.mask(args) end

---blocks of tokens to context-parallel ranks: owner of every block, load of every rank
---@param args cs.lab.balance.Args
---@return table
function cs.lab.balance(args) end

---samples of a step to replicas (lanes) and slots: lane, slot, work of every slot, makespan of the slowest replica under 1F1B, even: of equal slots
---@param args cs.lab.assign.Args
---@return table
function cs.lab.assign(args) end

---a module by its config.json as a table, without weights: for planning
---@param args cs.config.Args
---@return cs.hf
function cs.config(args) end

---the fastest plans of a model on a cluster: layout, recompute and schedule are found
---@param args cs.search.Args
---@return cs.sweep
function cs.search(args) end

---plans or jobs of every combination of parameters; plans are ranked
---@param args cs.sweep.Args
---@return cs.sweep
function cs.sweep(args) end

---token ids of a text, with the bytes each came from
---@param args cs.lab.tokens.Args
---@return table
function cs.lab.tokens(args) end

---a conversation as the model sees it, in segments, and what of it trains
---@param args cs.lab.render.Args
---@return table
function cs.lab.render(args) end

---a parameter of the script: what --set NAME=VALUE says, else its default; cs.param(NAME, DEFAULT) is short for it
---@param args string|cs.param.Args
---@return string|number|boolean
function cs.param(args) end

---jobs of the daemon, the newest first; only in 'cornstarch-console lua'
---@param args string|cs.jobs.Args
---@return cs.live[]
function cs.jobs(args) end

---hand a job to the daemon; only in 'cornstarch-console lua'
---@param args cs.submit.Args
---@return cs.live
function cs.submit(args) end

return cs
