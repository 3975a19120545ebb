"""What do people say of the changed examples?"""
