"""Approvals: how a person says yes to what a rule asks about, before anything of it goes upstream.

Read in this order: `stage` (who is asked, and by what way), `sealed_questions` (the way of modern hosts), `approvals`
(what is waited for and what was decided, for hosts and commands alike), `requests` (one thing that is asked, and the
limits of how much), `grants` (what a person has agreed to for longer), `what_person_is_asked` (about one call;
`digest_of_arguments` tells calls apart), `texts_for_people` (what a person is shown), `question_form` (what may be
answered).

    host                    asked by                                            meanwhile
    legacy, has forms       a form on the stream of its call                    the call waits
    modern, has forms       a result that asks for input, with a sealed state   only the request is kept
    any other               `hubd approvals -f`, where somebody watches         the call waits a little
                            `hubd approve`, once the model has said so          refused; a later equal call goes on

What always holds: nothing goes upstream before the yes, and a deny of a rule beats it; a yes is for the
program and the definition that were shown, and, if for one call only, for its arguments.
"""
