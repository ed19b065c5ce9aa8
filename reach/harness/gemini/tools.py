"""Gemini CLI's tools by name, across its versions."""

ALLOWED = ("run_shell_command", "list_background_processes", "read_background_output")
"""The shell, and two that read the local log of a shell command whose output came from the target."""

DENIED = (
    # As the newest versions call them.
    "read_file",
    "write_file",
    "replace",
    "glob",
    "grep_search",
    "list_directory",
    "read_many_files",
    "web_fetch",
    "google_web_search",
    "write_todos",
    "activate_skill",
    "get_internal_docs",
    "ask_user",
    "enter_plan_mode",
    "exit_plan_mode",
    "update_topic",
    "complete_task",
    "invoke_agent",
    "tracker_create_task",
    "tracker_update_task",
    "tracker_get_task",
    "tracker_list_tasks",
    "tracker_add_dependency",
    "tracker_visualize",
    "read_mcp_resource",
    "list_mcp_resources",
    "take_snapshot",
    # As older ones did.
    "search_file_content",
    "save_memory",
    "codebase_investigator",
    "cli_help",
    "generalist",
    "delegate_to_agent",
)
"""Every other tool seen in a version from 0.1.22 to 0.61.0. A name that a version doesn't know is ignored by
it."""
